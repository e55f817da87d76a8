import { X } from 'lucide'
import { useState } from 'preact/hooks'
import { Check, Field, Select, TextArea } from '../../parts/form.js'
import { IconButton } from '../../parts/icon.js'
import { hasFeature } from '../../parts/switched-off.js'
import type { ChatSettings } from './settings.js'
import { SystemForm } from './system-form.js'
import { ofModel, useAnswer } from '../../server.js'

/** The id of the settings, for the buttons that open them. */
export const settingsId = 'settings'

type Name = keyof ChatSettings

const numbers: readonly (readonly [name: Name, label: string, step: string, inProps: string])[] = [
  ['temperature', 'Temperature', '0.1', 'temperature'],
  ['topP', 'Top p', '0.05', 'top_p'],
  ['maxTokens', 'Max tokens', '1', 'max_tokens'],
  ['seed', 'Seed', '1', ''],
]

const toolsExample =
  '[{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]'

interface SettingsFormProps {
  readonly settings: ChatSettings
  readonly models: readonly (readonly [value: string, name: string])[]
  readonly onChange: (settings: ChatSettings) => void
}

/** The settings of the chat; an empty field shows and means the server's default. */
export function SettingsForm({ settings, models, onChange }: SettingsFormProps) {
  const [isOpen, setOpen] = useState(false)
  const defaults = useDefaults(settings.model || (models[0]?.[1] ?? ''), isOpen)
  const set = (name: Name) => (value: string) => onChange({ ...settings, [name]: value })
  const placeholder = (inProps: string): string => {
    const value = defaults[inProps]
    if (value === undefined) return inProps === '' ? 'random' : 'default'
    if (inProps === 'max_tokens' && value < 0) return 'no limit'
    return String(Math.round(1000 * value) / 1000)
  }
  const check = (name: Name, on: string, off: string, text: string) => (
    <Check
      class="check wide"
      text={text}
      checked={settings[name] === on}
      onCheck={(isOn) => set(name)(isOn ? on : off)}
    />
  )
  return (
    <aside
      class="settings"
      id={settingsId}
      popover="auto"
      aria-label="Settings"
      onToggle={(event) => setOpen(event.newState === 'open')}
    >
      <div class="card-head">
        <h2>Settings</h2>
        <IconButton icon={X} name="Close the settings" onPress={closeSettings} />
      </div>
      <div class="fields">
        {numbers.map(([name, label, step, inProps]) => (
          <Field
            key={name}
            label={label}
            type="number"
            step={step}
            placeholder={placeholder(inProps)}
            value={settings[name]}
            onText={set(name)}
          />
        ))}
        <Select
          label="Reasoning effort"
          value={settings.effort}
          options={[['', 'default'], 'none', 'minimal', 'low', 'medium', 'high']}
          onChoose={set('effort')}
        />
        {check('figures', '', 'hidden', 'Times and token counts below answers')}
      </div>
      <SystemForm system={settings.system} onChange={set('system')} />
      <fieldset>
        <legend>Compare</legend>
        <div class="fields">
          {check('compare', 'on', '', 'Ask each question twice, side by side')}
          {settings.compare === 'on' && (
            <>
              <Select
                label="Second model"
                value={settings.rivalModel}
                options={models}
                onChoose={set('rivalModel')}
              />
              <Field
                label="Its temperature"
                type="number"
                step="0.1"
                placeholder="the same"
                value={settings.rivalTemperature}
                onText={set('rivalTemperature')}
              />
              <TextArea
                class="wide"
                label="Its system prompt"
                placeholder="the same"
                value={settings.rivalSystem}
                onText={set('rivalSystem')}
              />
            </>
          )}
        </div>
      </fieldset>
      <fieldset>
        <legend>Tools</legend>
        <div class="fields">
          <TextArea
            class="wide"
            label="Tools, as JSON in OpenAI's form; you type the results of calls"
            placeholder={toolsExample}
            value={settings.tools}
            onText={set('tools')}
          />
          {hasFeature('mcp') &&
            check('mcp', 'on', '', "Offer the MCP servers' tools; you run each call")}
          {(settings.tools.trim() !== '' || settings.mcp === 'on') && (
            <Select
              label="Tool choice"
              value={settings.toolChoice}
              options={[['', 'auto'], 'required', 'none']}
              onChoose={set('toolChoice')}
            />
          )}
        </div>
      </fieldset>
    </aside>
  )
}

/** The server's sampling defaults from `GET /props`; empty for a server without that route. */
function useDefaults(model: string, isOpen: boolean): Readonly<Record<string, number>> {
  type Params = Readonly<Record<string, number>>
  type Props = { readonly default_generation_settings?: { readonly params?: Params } }
  const isAsked = isOpen && hasFeature('llama-server')
  const { answer } = useAnswer<Props>(isAsked ? ofModel('props', model) : undefined)
  return answer?.default_generation_settings?.params ?? {}
}

const closeSettings = (): void => document.getElementById(settingsId)?.hidePopover()
