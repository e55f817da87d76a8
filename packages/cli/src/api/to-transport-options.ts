import { readFileSync } from 'node:fs'
import { createSecureContext } from 'node:tls'
import { defined } from '@cllm/core'
import type { CreateLimitCounter, KeyRing, KoaTransportOptions } from '@cllm/http-koa'
import { orInvalid } from '../config/messages.js'
import { splitAtCommas } from '../config/options/value-format.js'
import type { ServedModel } from '../config/served-models.js'
import { mayHaveProjector } from '../models/resolve-model.js'
import type { CllmConfig } from '../config/options/schema.js'

/**
 * Converts the configuration to options of the HTTP transport.
 *
 * @param encodes - whether something encodes images and sounds here, where a model has a projector
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
 * The largest body in bytes: a photo in base64 must get through where a model looks at it. What is in a repository is not
 * known before the model is loaded, which may be with its first photo; what a cluster's workers have, not at all.
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
  const read = (file: string) =>
    orInvalid(
      () => readFileSync(file),
      (reason) => `a TLS file cannot be read: ${reason}`,
    )
  const tls = { cert: read(certFile), key: read(keyFile) }
  orInvalid(
    () => createSecureContext(tls),
    (reason) => `${certFile} and ${keyFile} cannot be used for TLS: ${reason}`,
  )
  return tls
}
