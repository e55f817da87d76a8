import type { SamplingParams } from '@cllm/core'
import {
  adminProtocol,
  type KoaProtocol,
  type LogLevelControl,
  type ModelStore,
  llamaServerProtocol,
  metricsProtocol,
  modelsProtocol,
  nativeProtocol,
  ollamaProtocol,
  openApiProtocol,
  openAiProtocol,
} from '@cllm/http-koa'
import type { LoadedConfig } from './config/load-config.js'
import type { ProtocolName } from './config/protocol-names.js'

/** The built-in protocols that the configuration names; `now` is milliseconds since the epoch. */
export function createProtocols(
  loaded: LoadedConfig,
  now: number,
  log?: LogLevelControl,
  store?: ModelStore,
): KoaProtocol[] {
  const { config } = loaded
  const defaults = setDefaults(loaded)
  const create: Readonly<Record<ProtocolName, () => KoaProtocol>> = {
    native: () =>
      nativeProtocol({ defaults, maxQueuedRequests: config.scheduler.max_queued_requests }),
    openai: () => openAiProtocol({ defaults, started: now }),
    ollama: () => ollamaProtocol({ defaults, started: now, ...(store && { store }) }),
    'llama-server': () => llamaServerProtocol({ defaults }),
    models: modelsProtocol,
    openapi: () => openApiProtocol({ protocols: described }),
    admin: () => adminProtocol(log === undefined ? {} : { log }),
    metrics: metricsProtocol,
  }
  const names = config.server.protocols
  const described: KoaProtocol[] = []
  for (const name of names) if (name !== 'openapi') described.push(create[name]())
  return names.includes('openapi') ? [...described, create.openapi()] : described
}

/** What somebody has set; the rest is left to each protocol's own defaults. */
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
