import type { JSX } from 'preact'
import { Field, Select, TextArea } from '../parts/form.js'
import type { ChatSettings } from './settings.js'

const numbers: readonly (readonly [name: keyof ChatSettings, label: string, step: string])[] = [
  ['temperature', 'Temperature', '0.1'],
  ['topP', 'Top p', '0.05'],
  ['maxTokens', 'Most tokens', '1'],
  ['seed', 'Seed', '1'],
]

const toolsExample =
  '[{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]'

/** The settings of the chat; what is left empty is the server's default. */
export function SettingsForm({
  settings,
  models,
  onChange,
}: {
  readonly settings: ChatSettings
  readonly models: readonly string[]
  readonly onChange: (settings: ChatSettings) => void
}): JSX.Element {
  const set = (name: keyof ChatSettings) => (value: string) =>
    onChange({ ...settings, [name]: value })
  return (
    <details class="settings">
      <summary>Settings</summary>
      <div class="fields">
        <Select
          label="Model"
          value={settings.model}
          options={[['', "the server's default"], ...models]}
          onChoose={set('model')}
        />
        {numbers.map(([name, label, step]) => (
          <Field
            key={name}
            label={label}
            type="number"
            step={step}
            value={settings[name]}
            onText={set(name)}
          />
        ))}
        <Select
          label="Effort"
          value={settings.effort}
          options={[['', "the model's own"], 'none', 'minimal', 'low', 'medium', 'high']}
          onChoose={set('effort')}
        />
        <TextArea
          class="wide"
          label="System prompt"
          spellcheck
          value={settings.system}
          onText={set('system')}
        />
        <TextArea
          class="wide"
          label="Tools, as JSON in OpenAI's form; you give the results of their calls"
          placeholder={toolsExample}
          value={settings.tools}
          onText={set('tools')}
        />
        {settings.tools.trim() !== '' && (
          <Select
            label="Calls of tools"
            value={settings.toolChoice}
            options={[
              ['', 'as the model likes'],
              ['required', 'at least one'],
              ['none', 'none'],
            ]}
            onChoose={set('toolChoice')}
          />
        )}
      </div>
    </details>
  )
}
