import { type PluginRegistry, type SamplingParams, samplingRows } from '@cllm/core'
import {
  createKoaProtocols,
  type HoldFolder,
  type KeyStore,
  type KoaProtocol,
  type LogLevelControl,
  type ModelStore,
  type OpenBatches,
} from '@cllm/http-koa'
import { pageFolder } from '@cllm/web'
import type { LoadedConfig } from '../config/load-config.js'

/** The inputs of protocols besides the configuration. */
export interface ProtocolSurroundings {
  readonly registry: PluginRegistry
  /** Milliseconds since the epoch. */
  readonly now: number
  readonly log?: LogLevelControl
  readonly store?: ModelStore
  readonly batches?: OpenBatches
  readonly holdFolder?: HoldFolder
  /** The API keys, where they can be changed. */
  readonly keys?: KeyStore
}

/**
 * The protocols that the configuration names, or every registered one.
 *
 * @throws `invalid_configuration` for an unregistered name or an invalid option
 */
export function createProtocols(
  loaded: LoadedConfig,
  { registry, now, ...surroundings }: ProtocolSurroundings,
): KoaProtocol[] {
  const { server, scheduler } = loaded.config
  return createKoaProtocols(registry, {
    ...namesOf(loaded.config),
    options: optionsOf(server),
    defaults: setDefaults(loaded),
    started: now,
    ...(server.ui ? { page: pageFolder } : {}),
    maxQueuedRequests: scheduler.max_queued_requests,
    ...surroundings,
  })
}

/** The chosen protocols; a folder chooses the one that it is for. */
function namesOf({ server, cluster }: LoadedConfig['config']) {
  const { protocols } = server
  const needed = [...Object.keys(foldersOf(server)), ...(cluster.batches ? ['batches'] : [])]
  return protocols === 'all' ? {} : { names: [...protocols, ...needed] }
}

/** The protocols that need a folder, where they have one. */
function foldersOf({ batches, batch_share: share, usage }: LoadedConfig['config']['server']) {
  return {
    ...(batches !== null && { batches: { folder: batches, share } }),
    ...(usage !== null && { usage: { folder: usage } }),
  }
}

type ProtocolOptions = Readonly<Record<string, Readonly<Record<string, unknown>>>>

function optionsOf(server: LoadedConfig['config']['server']): ProtocolOptions {
  const options = { ...(server.protocol_options as ProtocolOptions) }
  for (const [name, folder] of Object.entries(foldersOf(server))) {
    options[name] = { ...folder, ...options[name] }
  }
  return options
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
