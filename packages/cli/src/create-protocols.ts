import type { PluginRegistry, SamplingParams } from '@cllm/core'
import {
  createKoaProtocols,
  type KoaProtocol,
  type LogLevelControl,
  type ModelStore,
} from '@cllm/http-koa'
import type { LoadedConfig } from './config/load-config.js'

/** The inputs of protocols besides the configuration. */
export interface ProtocolSurroundings {
  readonly registry: PluginRegistry
  /** Milliseconds since the epoch. */
  readonly now: number
  readonly log?: LogLevelControl
  readonly store?: ModelStore
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
    ...namesOf(server),
    options: optionsOf(server),
    defaults: setDefaults(loaded),
    started: now,
    maxQueuedRequests: scheduler.max_queued_requests,
    ...surroundings,
  })
}

/** The chosen protocols; a folder for batches chooses theirs. */
function namesOf({ protocols, batches }: LoadedConfig['config']['server']) {
  if (protocols === 'all') return {}
  return { names: batches === null ? protocols : [...protocols, 'batches'] }
}

type ProtocolOptions = Readonly<Record<string, Readonly<Record<string, unknown>>>>

function optionsOf({ protocol_options, batches }: LoadedConfig['config']['server']) {
  const options = protocol_options as ProtocolOptions
  if (batches === null) return options
  return { ...options, batches: { folder: batches, ...options['batches'] } }
}

/** The defaults that the configuration sets; each protocol has its own for the others. */
function setDefaults({ config, sources }: LoadedConfig) {
  const { defaults } = config.api
  const isSet = (name: keyof typeof defaults): boolean =>
    sources.get(`api.defaults.${name}`) !== 'default'
  const sampling: Partial<SamplingParams> = {
    ...(isSet('temperature') && { temperature: defaults.temperature }),
    ...(isSet('top_k') && { topK: defaults.top_k }),
    ...(isSet('top_p') && { topP: defaults.top_p }),
    ...(isSet('min_p') && { minP: defaults.min_p }),
    ...(isSet('repetition_penalty') && { repetitionPenalty: defaults.repetition_penalty }),
    ...(isSet('presence_penalty') && { presencePenalty: defaults.presence_penalty }),
    ...(isSet('frequency_penalty') && { frequencyPenalty: defaults.frequency_penalty }),
  }
  return { ...(isSet('max_tokens') && { maxTokens: defaults.max_tokens }), sampling }
}
