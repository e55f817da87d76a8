import { wrong } from '../../flags/flags.js'

/** A target of a comparison, as given by its flag. */
export type TargetSpec = { readonly name: string } & (
  | { readonly url: URL }
  | { readonly command: string }
)

/**
 * Reads `name=URL` and `name=cmd:COMMAND {port}`.
 *
 * @throws `invalid_configuration`
 */
export function parseTarget(text: string): TargetSpec {
  const [, name, what] = /^([\w.-]+)=(.+)$/s.exec(text) ?? []
  const problem = 'expected name=URL or name=cmd:COMMAND with {port} in it'
  if (name === undefined || what === undefined) throw wrong(`--target: ${problem}, got "${text}"`)
  if (what.startsWith('cmd:')) {
    const command = what.slice('cmd:'.length).trim()
    if (command.includes('{port}')) return { name, command }
    throw wrong(`--target ${name}: {port} is missing in the command; it is replaced by a free port`)
  }
  if (URL.canParse(what) && /^https?:/.test(what)) return { name, url: new URL(what) }
  throw wrong(`--target: ${problem}, got "${text}"`)
}

/** The API of each target, from `--api NAME` for all and `--api target=NAME` for one. */
export function apiNames(
  specs: readonly TargetSpec[],
  flags: readonly string[],
): ReadonlyMap<string, string> {
  let common = 'cllm'
  const own = new Map<string, string>()
  for (const flag of flags) {
    const [name = '', api] = flag.split('=')
    if (api === undefined) common = name
    else if (specs.some((spec) => spec.name === name)) own.set(name, api)
    else throw wrong(`--api: there is no target "${name}"`)
  }
  return new Map(specs.map(({ name }) => [name, own.get(name) ?? common]))
}
