import { Trash2 } from 'lucide'
import { useState } from 'preact/hooks'
import { Field, Problem, Quiet, Select, TextArea, useTelling } from '../../parts/form.js'
import { IconButton } from '../../parts/icon.js'
import { keepAs, readKept } from './settings.js'

/** A system prompt with a name. */
interface Preset {
  readonly name: string
  readonly system: string
}

const key = 'cllm-presets'

/** The presets that this browser stores. */
export const readPresets = (): readonly Preset[] => readKept(key, [])

/** The label of a system prompt: its preset's name, or that one is set; undefined for none. */
export function systemName(system: string, presets: readonly Preset[]): string | undefined {
  if (system.trim() === '') return undefined
  return presets.find((preset) => preset.system === system)?.name ?? 'System prompt'
}

interface SystemFormProps {
  readonly system: string
  readonly onChange: (system: string) => void
}

/** The form of the system prompt: typed, or chosen from the presets. */
export function SystemForm({ system, onChange }: SystemFormProps) {
  const [presets, setPresets] = useState(readPresets)
  const [name, setName] = useState('')
  const { told, attempt } = useTelling()
  const chosen = presets.find((preset) => preset.system === system)
  const change = (next: readonly Preset[]): void => {
    keepAs(key, next)
    setPresets(next)
  }
  const save = async (): Promise<string> => {
    const others = presets.filter((preset) => preset.name !== name.trim())
    change([...others, { name: name.trim(), system }])
    setName('')
    return ''
  }
  return (
    <fieldset>
      <legend>System prompt</legend>
      <div class="fields">
        {presets.length > 0 && (
          <Select
            class="wide"
            label="Preset"
            value={chosen?.name ?? ''}
            options={[
              ['', system === '' ? 'none' : 'not saved'],
              ...presets.map(({ name }) => name),
            ]}
            onChoose={(value) => onChange(presets.find(({ name }) => name === value)?.system ?? '')}
          />
        )}
        <TextArea class="wide" label="System prompt" spellcheck value={system} onText={onChange} />
        {chosen !== undefined && (
          <IconButton
            icon={Trash2}
            name={`Delete the preset ${chosen.name}`}
            onPress={() => change(presets.filter((preset) => preset !== chosen))}
          />
        )}
        {system.trim() !== '' && chosen === undefined && (
          <>
            <Field label="Name of the preset" value={name} onText={setName} />
            <Quiet class="quiet end" disabled={name.trim() === ''} onClick={() => attempt(save)}>
              Save preset
            </Quiet>
          </>
        )}
      </div>
      <Problem text={told || undefined} />
    </fieldset>
  )
}
