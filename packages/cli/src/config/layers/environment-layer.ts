import { suggestion } from '../suggestion.js'
import { options } from '../options/option-list.js'
import type { Layer, Setting } from './setting.js'

/** The variable that names the YAML file. */
export const configVariable = 'CLLM_CONFIG'

const names = [configVariable, ...options.map((option) => option.env)]

/** Reads the settings in the environment. An empty variable counts as not set. */
export const readEnvironmentLayer = (env: NodeJS.ProcessEnv): Layer => {
  const settings: Setting[] = []
  for (const { path, env: name, format } of options) {
    const text = env[name]
    if (text === undefined || text === '') continue
    settings.push({ path, value: format.parse(text), source: name, label: name })
  }
  const warnings = Object.keys(env)
    .filter((name) => name.startsWith('CLLM_') && !names.includes(name))
    .map((name) => `unknown environment variable ${name}${suggestion(name, names)}`)
  return { settings, problems: [], warnings }
}
