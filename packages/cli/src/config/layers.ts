import { parseArgs, type ParseArgsConfig } from 'node:util'
import { nearestName } from '@cllm/core'
import { suggestion } from './messages.js'
import { options } from './options/schema.js'
import { isRecord, accepts } from './options/value-format.js'
import { readModel } from './served-models.js'
import { readData } from './paths.js'

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

/** Settings by their paths. */
export type Settings = ReadonlyMap<string, Setting>

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

/** Whether Kubernetes set the variable: `CLLM_PORT` is such a URL in containers beside a service named `cllm`. */
const isServiceLink = (name: string, text: string): boolean =>
  name.endsWith('_PORT') && /^(tcp|udp|sctp):\/\//.test(text)

const variables = [configVariable, ...options.map((option) => option.env)]

/** Reads the settings in the environment. An empty variable counts as not set. */
export const readEnvironmentLayer = (env: NodeJS.ProcessEnv): Layer => {
  const settings: Setting[] = []
  const links: string[] = []
  for (const { path, env: name, format } of options) {
    const text = env[name]
    if (text === undefined || text === '') continue
    if (isServiceLink(name, text)) {
      const what = `${name}=${text} is Kubernetes' link to a service and is passed over`
      links.push(`${what}: set enableServiceLinks: false in the pod`)
      continue
    }
    settings.push({ path, value: format.parse(text), source: name, label: name })
  }
  const warnings = Object.keys(env)
    .filter((name) => name.startsWith('CLLM_') && !variables.includes(name))
    .map((name) => `unknown environment variable ${name}${suggestion(name, variables)}`)
  return { settings, problems: [], warnings: [...links, ...warnings] }
}

const paths: ReadonlySet<string> = new Set(options.map(({ path }) => path))
const sections = options.map(({ path }) => path.replace(/\..*/, ''))
const isSection = (path: string): boolean => options.some((one) => one.path.startsWith(`${path}.`))

/**
 * Reads the settings in an object of the YAML file's shape; undefined values count as not set.
 *
 * @param label - its name in messages
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
      else if (!isSection(path)) {
        const meant = suggestion(path, [...paths, ...sections])
        problems.push(`${own}: there is no such setting${meant}`)
      } else if (isRecord(value)) read(value, `${path}.`)
      else problems.push(`${own}: expected an object with settings`)
    }
  }
  read(tree, '')
  return { settings, problems, warnings: [] }
}

/** The flag that names the YAML file. */
export const configFlag = 'config'

const byFlag = new Map(options.map((option) => [option.flag, option]))
/** `--no-mmap` turns a switch off; `--no-batches` takes back what the file or the environment sets. */
const negated = new Map(
  options
    .filter(({ format }) => format.isSwitch || accepts(format, null))
    .map((option) => [`no-${option.flag}`, option]),
)

const known: NonNullable<ParseArgsConfig['options']> = { [configFlag]: { type: 'string' } }
for (const { flag, format } of options)
  known[flag] = { type: format.isSwitch ? 'boolean' : 'string' }
for (const flag of negated.keys()) known[flag] = { type: 'boolean' }
const flagNames = Object.keys(known)

const tokenize = (args: string[]) =>
  parseArgs({ args, options: known, strict: false, allowPositionals: true, tokens: true }).tokens

type OptionToken = Extract<ReturnType<typeof tokenize>[number], { kind: 'option' }>

/** Why the token's value is invalid, or undefined. */
const valueProblem = ({ name, rawName, value, inlineValue }: OptionToken): string | undefined => {
  if (known[name]?.type === 'boolean') {
    return inlineValue && negated.has(name) ? `${rawName}: takes no value` : undefined
  }
  const placeholder = name === configFlag ? 'FILE' : byFlag.get(name)?.placeholder
  if (value === undefined || value === '') return `${rawName}: expected a value (${placeholder})`
  if (!inlineValue && /^-[^\d.]/.test(value)) {
    return `${rawName}: expected a value (${placeholder}), got the flag ${value}`
  }
  return undefined
}

/**
 * What is wrong with a flag that a command does not have, and which one was probably meant.
 *
 * @param own - the names of the command's flags
 */
export function unknownFlag(written: string, own: readonly string[]): string {
  const name = written.replace(/^-+/, '')
  const theirs = readData('other-flags') as Readonly<Record<string, readonly string[]>>
  // this project's flags for a flag of another server, those of `cllm serve` first; an empty text: none takes its place
  const others = Object.keys(theirs).filter((flag) => theirs[flag]?.includes(written))
  const [other] = others
  if (other === '') return `unknown flag ${written}: docs/coming-from.md says what takes its place`
  const nearest = others.find((flag) => own.includes(flag)) ?? nearestName(name, own)
  if (nearest !== undefined) return `unknown flag ${written}; did you mean --${nearest}?`
  // A flag of another command is seldom misspelt as well: with more than one wrong letter, something else is meant.
  const servers = other ?? nearestName(name, flagNames, 1)
  return `unknown flag ${written}${servers === undefined ? '' : `; \`cllm serve\` has --${servers}`}`
}

/** The value of a repeated flag: lists and maps are extended, other values are replaced. */
const together = (before: unknown, given: unknown): unknown => {
  if (Array.isArray(given) && Array.isArray(before)) return [...before, ...given]
  return isRecord(given) && isRecord(before) ? { ...before, ...given } : given
}

/**
 * Reads flags strictly: reports every problem and skips nothing.
 *
 * @param own - flags that the command has besides these
 * @returns their settings, and the name of the YAML file
 */
export function readFlagsLayer(argv: readonly string[], own: readonly string[] = []) {
  const settings = new Map<string, Setting>()
  const problems: string[] = []
  let file: string | undefined
  /** The argument with the last unknown flag: its letters are separate tokens, but one problem. */
  let unknownAt: number | undefined
  /** The argument that is probably the value of a wrong flag, and so no problem of its own. */
  let valueAt: number | undefined

  // `pnpm start -- --port 9000` passes the `--` on.
  const args = argv.filter((argument) => argument !== '--')
  for (const token of tokenize(args)) {
    if (token.kind === 'positional') {
      const problem = `unexpected argument ${token.value}; --model names the model`
      if (token.index !== valueAt) problems.push(problem)
      continue
    }
    if (token.kind !== 'option' || token.index === unknownAt) continue
    const { name, rawName, value, index } = token
    if (!Object.hasOwn(known, name)) {
      // several letters behind one dash are several flags here, and one in other servers
      const written = rawName.startsWith('--') ? rawName : args[index]!.replace(/=.*$/s, '')
      problems.push(unknownFlag(written, [...own, ...flagNames]))
      unknownAt = index
      valueAt = token.inlineValue ? undefined : index + 1
      continue
    }
    const problem = valueProblem(token)
    if (problem !== undefined) {
      problems.push(problem)
      // What was read as its value may be a flag with a value.
      if (value !== '') valueAt = index + 2
      continue
    }
    const option = byFlag.get(name) ?? negated.get(name)
    if (option === undefined) {
      file = value
      continue
    }
    // `--model NAME=SPEC` adds one of several models.
    const served = option.path === 'model.spec' ? readModel(value ?? '') : undefined
    const path = served === undefined ? option.path : 'models.served'
    let given: unknown = value === undefined ? true : option.format.parse(value)
    if (negated.has(name)) given = option.format.isSwitch ? false : null
    if (served !== undefined) given = Object.fromEntries([served])
    const all = together(settings.get(path)?.value, given)
    settings.set(path, { path, value: all, source: rawName, label: rawName })
  }
  return { settings: [...settings.values()], problems, warnings: [], file }
}
