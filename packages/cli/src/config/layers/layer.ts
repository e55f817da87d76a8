import { suggestion } from '../messages.js'
import { options } from '../options/schema.js'
import { isRecord } from '../options/value-format.js'

/** A value given for an option, and where it was given. */
export interface Setting {
  /** The option, such as `server.port`. */
  readonly path: string
  readonly value: unknown
  /** Where it was given: `cllm.yaml:3`, `CLLM_PORT`, `--port`. */
  readonly source: string
  /** The same, as messages start with it: `cllm.yaml:3: server.port`, `CLLM_PORT`, `--port`. */
  readonly label: string
}

/** The settings from one place: the file, the environment or the flags. */
export interface Layer {
  readonly settings: readonly Setting[]
  readonly problems: readonly string[]
  readonly warnings: readonly string[]
  /** Whether the file is written for the original server. */
  readonly isOriginal?: boolean
}

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

const paths: ReadonlySet<string> = new Set(options.map(({ path }) => path))
const isSection = (path: string): boolean => options.some((one) => one.path.startsWith(`${path}.`))

/**
 * Reads the settings in an object of the YAML file's shape; what is undefined counts as not set.
 *
 * @param label - what messages call it
 */
export function readObjectLayer(tree: object, label: string): Layer {
  const settings: Setting[] = []
  const problems: string[] = []
  const read = (given: object, prefix: string): void => {
    for (const [name, value] of Object.entries(given) as [string, unknown][]) {
      const path = `${prefix}${name}`
      const own = `${label}: ${path}`
      if (value === undefined) continue
      if (paths.has(path)) settings.push({ path, value, source: label, label: own })
      else if (!isSection(path))
        problems.push(`${own}: there is no such setting${suggestion(path, paths)}`)
      else if (isRecord(value)) read(value, `${path}.`)
      else problems.push(`${own}: expected an object with settings`)
    }
  }
  read(tree, '')
  return { settings, problems, warnings: [] }
}
