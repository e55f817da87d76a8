import { suggestion } from '../messages.js'
import { options } from '../options/schema.js'
import type { Layer, Setting } from './setting.js'

/** The variable that names the YAML file. */
export const configVariable = 'CLLM_CONFIG'

/** Kubernetes sets `CLLM_PORT` so in containers beside a service with the name `cllm`. */
const isServiceLink = (name: string, text: string): boolean =>
  name.endsWith('_PORT') && /^(tcp|udp|sctp):\/\//.test(text)

const names = [configVariable, ...options.map((option) => option.env)]

/** Reads the settings in the environment. An empty variable counts as not set. */
export const readEnvironmentLayer = (env: NodeJS.ProcessEnv): Layer => {
  const settings: Setting[] = []
  const links: string[] = []
  for (const { path, env: name, format } of options) {
    const text = env[name]
    if (text === undefined || text === '') continue
    if (isServiceLink(name, text)) {
      links.push(
        `${name}=${text} is Kubernetes' link to a service and is passed over: set enableServiceLinks: false in the pod`,
      )
      continue
    }
    settings.push({ path, value: format.parse(text), source: name, label: name })
  }
  const warnings = Object.keys(env)
    .filter((name) => name.startsWith('CLLM_') && !names.includes(name))
    .map((name) => `unknown environment variable ${name}${suggestion(name, names)}`)
  return { settings, problems: [], warnings: [...links, ...warnings] }
}
