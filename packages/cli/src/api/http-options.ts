import { createSecureContext } from 'node:tls'
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
  type CreateLimitCounter,
  type KeyRing,
  type KoaTransportOptions,
} from '@cllm/http-koa'
import { pageFolder } from '@cllm/web'
import type { LoadedConfig } from '../config/load-config.js'
import { ofCluster, readNamed } from '../config/paths.js'
import type { SharedWithFronts } from '../models/served/served-pool.js'
import { orInvalid } from '../config/messages.js'
import { splitAtCommas } from '../config/options/value-format.js'
import type { ServedModel } from '../config/served-models.js'
import { mayHaveProjector } from '../models/resolve-model.js'
import type { CllmConfig } from '../config/options/schema.js'

type ProtocolOptions = Readonly<Record<string, Readonly<Record<string, unknown>>>>

/**
 * The protocols that the configuration names, or every registered one.
 *
 * @param services - their services, to which those of the configuration are added
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
  const { batches, batch_share: share, usage } = server
  const folders = Object.entries({
    ...(batches !== null && { batches: { folder: batches, share } }),
    ...(usage !== null && { usage: { folder: usage } }),
  })
  // A folder also enables the protocol that it is for.
  const needed = [...folders.map(([name]) => name), ...(cluster.batches ? ['batches'] : [])]
  const given = server.protocol_options as ProtocolOptions
  const own = folders.map(([name, options]) => [name, { ...options, ...given[name] }] as const)
  return createKoaProtocols(registry, {
    ...(server.protocols !== 'all' && { names: [...server.protocols, ...needed] }),
    options: { ...given, ...Object.fromEntries(own) },
    services,
  })
}

/**
 * The store of responses, if they are kept.
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

/**
 * Converts the configuration to options of the HTTP transport.
 *
 * @param encodes - whether images and sounds can be encoded here for a model with a projector
 * @throws `invalid_configuration` for a certificate or key that cannot be read or used
 */
export function toTransportOptions(
  config: CllmConfig,
  keys: KeyRing | undefined,
  encodes: boolean,
  limitCounters?: CreateLimitCounter,
): Omit<KoaTransportOptions, 'protocols'> {
  const { server, security } = config
  const { media_urls: hosts, tls_cert: cert, tls_key: key } = security
  return {
    host: splitAtCommas(server.host),
    port: server.port,
    bodyLimitBytes: bodyLimitOf(config, encodes),
    bodiesLimitBytes: server.bodies_limit,
    streamLimitBytes: server.stream_limit,
    jsonDepthLimit: security.json_depth,
    maxConnections: security.max_connections,
    headerLimitBytes: security.header_limit,
    headerTimeoutMs: security.header_timeout * 1000,
    bodyTimeoutMs: security.body_timeout * 1000,
    keepAliveMs: security.idle_timeout * 1000,
    ...(hosts.length > 0 && { mediaUrls: { hosts } }),
    ...(cert === null || key === null ? {} : { tls: readTls(cert, key) }),
    security: {
      corsOrigins: security.cors_origins,
      limits: defined({
        requestsPerMinute: security.requests_per_minute || undefined,
        tokensPerMinute: security.tokens_per_minute || undefined,
      }),
      ...defined({ keys, limitCounters }),
    },
  }
}

/**
 * The largest body in bytes: a photo in base64 must fit if a model may see it. Whether a repository has a projector is
 * not known before the model is loaded, which its first photo may do; whether a cluster's workers have one, never.
 */
function bodyLimitOf(config: CllmConfig, encodes: boolean): number {
  const { server, engine, model, models, cluster } = config
  if (server.body_limit !== 'auto') return server.body_limit
  const several = Object.values(models.served)
  const served: readonly ServedModel[] = several.length === 0 ? [{ spec: model.spec }] : several
  const looks = served.some(({ spec, mmproj = engine.mmproj }) =>
    mmproj === 'auto'
      ? encodes && (cluster.url !== null || mayHaveProjector(spec))
      : mmproj !== null,
  )
  const mebibytes = looks ? 32 : 1
  return Math.min(mebibytes * 1024 * 1024, server.bodies_limit)
}

function readTls(certFile: string, keyFile: string) {
  const read = (file: string) => orInvalid(() => readNamed(file), 'a TLS file cannot be read')
  const tls = { cert: read(certFile), key: read(keyFile) }
  orInvalid(() => createSecureContext(tls), `${certFile} and ${keyFile} cannot be used for TLS`)
  return tls
}
