import { readFileSync } from 'node:fs'
import { createSecureContext } from 'node:tls'
import { CllmError, defined } from '@cllm/core'
import type { CreateLimitCounter, KeyRing, KoaTransportOptions } from '@cllm/http-koa'
import { splitAtCommas } from '../config/options/value-format.js'
import type { CllmConfig } from '../config/options/schema.js'

/**
 * Converts the configuration to options of the HTTP transport.
 *
 * @throws `invalid_configuration` for a certificate or key that cannot be read or used
 */
export function toTransportOptions(
  { server, security }: CllmConfig,
  keys: KeyRing | undefined,
  limitCounters?: CreateLimitCounter,
): Omit<KoaTransportOptions, 'protocols'> {
  const { requests_per_minute: requests, tokens_per_minute: tokens } = security
  const { tls_cert: cert, tls_key: key } = security
  return {
    host: splitAtCommas(server.host),
    port: server.port,
    bodyLimitBytes: server.body_limit,
    bodiesLimitBytes: server.bodies_limit,
    streamLimitBytes: server.stream_limit,
    jsonDepthLimit: security.json_depth,
    maxConnections: security.max_connections,
    headerLimitBytes: security.header_limit,
    headerTimeoutMs: security.header_timeout * 1000,
    bodyTimeoutMs: security.body_timeout * 1000,
    keepAliveMs: security.idle_timeout * 1000,
    ...(cert === null || key === null ? {} : { tls: readTls(cert, key) }),
    security: {
      corsOrigins: security.cors_origins,
      limits: defined({
        requestsPerMinute: requests || undefined,
        tokensPerMinute: tokens || undefined,
      }),
      ...defined({ keys, limitCounters }),
    },
  }
}

function readTls(certFile: string, keyFile: string) {
  const tls = { cert: read(certFile), key: read(keyFile) }
  try {
    createSecureContext(tls)
  } catch (cause) {
    const message = `${certFile} and ${keyFile} cannot be used for TLS: ${(cause as Error).message}`
    throw new CllmError('invalid_configuration', message, { cause })
  }
  return tls
}

function read(file: string): Buffer {
  try {
    return readFileSync(file)
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new CllmError('invalid_configuration', `a TLS file cannot be read: ${reason}`, {
      cause,
    })
  }
}
