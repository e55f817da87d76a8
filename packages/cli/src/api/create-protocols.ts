import {
  defined,
  type Logger,
  type PluginRegistry,
  type SamplingParams,
  samplingRows,
  type SharedStates,
  systemClock,
} from '@cllm/core'
import { StateFolder } from '@cllm/host'
import {
  API_DEFAULTS,
  createKoaProtocols,
  type KoaProtocol,
  MAX_QUEUED_REQUESTS,
  ownFolder,
  type Services,
  WEB_PAGE,
} from '@cllm/http-koa'
import { pageFolder } from '@cllm/web'
import type { LoadedConfig } from '../config/load-config.js'
import { ofCluster } from '../config/paths.js'
import type { SharedWithFronts } from '../models/served/served-pool.js'

/**
 * The protocols that the configuration names, or every registered one.
 *
 * @param services - what they get besides that which the configuration says
 * @throws `invalid_configuration` for an unregistered name or an invalid option
 */
export function createProtocols(
  loaded: LoadedConfig,
  registry: PluginRegistry,
  services: Services,
): KoaProtocol[] {
  const { server, scheduler, cluster } = loaded.config
  services
    .set(API_DEFAULTS, setDefaults(loaded))
    .set(MAX_QUEUED_REQUESTS, scheduler.max_queued_requests)
    .set(WEB_PAGE, server.ui ? pageFolder : undefined)
  const folders = Object.entries(foldersOf(server))
  // A folder chooses the protocol that it is for.
  const needed = [...folders.map(([name]) => name), ...(cluster.batches ? ['batches'] : [])]
  const given = server.protocol_options as Readonly<
    Record<string, Readonly<Record<string, unknown>>>
  >
  const own = folders.map(([name, options]) => [name, { ...options, ...given[name] }] as const)
  return createKoaProtocols(registry, {
    ...(server.protocols !== 'all' && { names: [...server.protocols, ...needed] }),
    options: { ...given, ...Object.fromEntries(own) },
    services,
  })
}

/** The protocols that need a folder, where they have one. */
function foldersOf({ batches, batch_share: share, usage }: LoadedConfig['config']['server']) {
  return {
    ...(batches !== null && { batches: { folder: batches, share } }),
    ...(usage !== null && { usage: { folder: usage } }),
  }
}

/**
 * Where responses are kept, if anywhere.
 *
 * @throws `invalid_configuration` where the folder cannot be used
 */
export function responsesIn(
  { server, cache }: LoadedConfig['config'],
  logger: Logger,
  shared?: SharedWithFronts,
): SharedStates | undefined {
  const { responses: folder, responses_size: size, responses_age: days } = server
  if (folder === null) return undefined
  const limits = { limitBytes: size * 2 ** 20, maxAgeMs: days * 24 * 3_600_000 }
  const how = { ...limits, ...defined({ key: cache.key ?? undefined }) }
  if (folder === ofCluster) return shared?.keepResponses(how)
  ownFolder(folder, 'responses')
  return new StateFolder({ folder, ...how, isUrgent: true, isKept: true }, systemClock, logger)
}

/** The defaults that the configuration sets; each protocol has its own for the others. */
function setDefaults({ config, sources }: LoadedConfig) {
  const { defaults } = config.api
  const isSet = (name: keyof typeof defaults): boolean =>
    sources.get(`api.defaults.${name}`) !== 'default'
  const set = samplingRows.flatMap(([name, { wire }]) => {
    const field = wire as keyof typeof defaults
    return field in defaults && isSet(field) ? [[name, defaults[field]]] : []
  })
  const sampling: Partial<SamplingParams> = {
    ...(Object.fromEntries(set) as Partial<SamplingParams>),
    ...(defaults.seed !== null && { seed: defaults.seed }),
  }
  return { ...(isSet('max_tokens') && { maxTokens: defaults.max_tokens }), sampling }
}
