import { agentFor, apis, type Connections, type Target } from '@cllm/bench'
import { wrong } from '../../flags/flags.js'
import type { LoadFlagValues } from './read-load.js'

/** One target, as its flags describe it. */
export interface TargetFlags {
  readonly name: string
  readonly url: URL
  readonly api: string
  readonly connections: Connections
}

/**
 * Creates a target from flags.
 *
 * @throws `invalid_configuration` for an unknown API
 */
export function readTarget(
  { name, url, api: apiName, connections }: TargetFlags,
  flags: Pick<LoadFlagValues, 'api-key' | 'model' | 'extra-body'> &
    Partial<Pick<LoadFlagValues, 'connections'>>,
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
