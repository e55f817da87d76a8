import { agentFor, apis, type Connections, type Target, type ModelSettings } from '@cllm/bench'
import { wrong, one, type Values, integer, word } from '../../flags.js'
import type { LoadFlagValues, targetFlags } from './load.js'

/**
 * Creates a target from flags.
 *
 * @param connections - default for targets without the flag
 * @throws `invalid_configuration` for an unknown API
 */
export function readTarget(
  { name, url }: Pick<Target, 'name' | 'url'>,
  apiName: string,
  connections: Connections,
  flags: Values<typeof targetFlags> & Pick<LoadFlagValues, 'extra-body'>,
  env: NodeJS.ProcessEnv,
): Target {
  const api = apis.get(apiName)
  if (api === undefined) {
    throw wrong(`--api: expected ${[...apis.keys()].join(', ')}, got "${apiName}"`)
  }
  const key = flags['api-key'] ?? env.CLLM_BENCH_API_KEY
  return {
    name,
    url,
    api,
    ...(flags.model === undefined ? {} : { model: flags.model }),
    headers: key === undefined ? {} : { authorization: `Bearer ${key}` },
    extraBody: flags['extra-body'],
    agent: agentFor(url, flags.connections ?? connections),
  }
}

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
export function apiNames(specs: readonly TargetSpec[], flags: readonly string[]) {
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

/** The flags of {@link ModelSettings}. */
export const modelFlags = {
  model: one('SPEC', 'The model: a path or a name, as for cllm serve'),
  slots: one('N', 'Slots: sequences in memory', integer(1, 256), '8'),
  'ctx-size': one('N', "Tokens per slot (default: the backend's)", integer(1)),
  'batch-size': one('N', 'Tokens per step', integer(1), '512'),
  gpu: one(
    'KIND',
    'auto (default), off, metal, cuda or vulkan',
    word('auto', 'off', 'metal', 'cuda', 'vulkan'),
    'auto',
  ),
  threads: one('N', 'Threads (default: all useful cores but one)', integer(1, 512)),
  policy: one('NAME', 'Scheduling policy', String, 'adaptive+fcfs'),
} as const

/** Reads {@link modelFlags}. */
export function readModel(flags: Values<typeof modelFlags>): ModelSettings {
  const { model, slots, gpu, threads, policy } = flags
  if (model === undefined) throw wrong('--model is missing: expected the path or name of a model')
  const sizes = { contextSize: flags['ctx-size'], batchSize: flags['batch-size'] }
  return { model, slots, gpu, threads, policy, ...sizes }
}
