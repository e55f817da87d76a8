import type { JSX, TargetedEvent } from 'preact'
import type { ChatSettings } from './settings.js'

interface Field {
  readonly name: keyof ChatSettings
  readonly label: string
  readonly step?: string
}

const numbers: readonly Field[] = [
  { name: 'temperature', label: 'Temperature', step: '0.1' },
  { name: 'topP', label: 'Top p', step: '0.05' },
  { name: 'maxTokens', label: 'Most tokens', step: '1' },
  { name: 'seed', label: 'Seed', step: '1' },
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
  const set = (name: keyof ChatSettings) => (event: TargetedEvent<Control>) =>
    onChange({ ...settings, [name]: event.currentTarget.value })
  return (
    <details class="settings">
      <summary>Settings</summary>
      <div class="fields">
        <label>
          Model
          <select value={settings.model} onChange={set('model')}>
            <option value="">the server's default</option>
            {models.map((model) => (
              <option key={model} value={model}>
                {model}
              </option>
            ))}
          </select>
        </label>
        {numbers.map(({ name, label, step }) => (
          <label key={name}>
            {label}
            <input type="number" step={step} value={settings[name]} onInput={set(name)} />
          </label>
        ))}
        <label>
          Effort
          <select value={settings.effort} onChange={set('effort')}>
            <option value="">the model's own</option>
            {['none', 'minimal', 'low', 'medium', 'high'].map((effort) => (
              <option key={effort} value={effort}>
                {effort}
              </option>
            ))}
          </select>
        </label>
        <label class="wide">
          System prompt
          <textarea rows={2} value={settings.system} onInput={set('system')} />
        </label>
        <label class="wide">
          Tools, as JSON in OpenAI's form; you give the results of their calls
          <textarea
            rows={2}
            placeholder={toolsExample}
            value={settings.tools}
            spellcheck={false}
            onInput={set('tools')}
          />
        </label>
        {settings.tools.trim() !== '' && (
          <label>
            Calls of tools
            <select value={settings.toolChoice} onChange={set('toolChoice')}>
              <option value="">as the model likes</option>
              <option value="required">at least one</option>
              <option value="none">none</option>
            </select>
          </label>
        )}
      </div>
    </details>
  )
}

type Control = HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement
