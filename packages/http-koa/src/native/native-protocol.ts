import { createRequire } from 'node:module'
import { defaultEngineOptions, type EngineDirectory } from '@cllm/core'
import type { KoaProtocol, KoaRouter } from '../koa-context.js'
import type { HandledRoute } from '../request/api-route.js'
import { mountRoutes } from '../request/mount-routes.js'
import {
  type DefaultOverrides,
  nativeDefaults,
  withOverrides,
} from '../request/protocol-defaults.js'
import { benchmark, benchmarkSchema } from './benchmark.js'
import { decode, decodeSchema } from './decode.js'
import { encode, encodeSchema } from './encode.js'
import { generateSchema } from './generate-request.js'
import { generate, generateStream } from './generate.js'
import { health, healthQuery, live, ready } from './health.js'
import { modelInfo } from './model-info.js'
import type { NativeContext } from './native-context.js'
import { requestReport } from './request-report.js'
import { root } from './root.js'
import { UnknownFields } from './unknown-fields.js'
import { WaitTimes } from './wait-times.js'

/** Settings of {@link nativeProtocol}. */
export interface NativeProtocolOptions {
  /** Shown by `GET /`; default: the version of this package. */
  readonly version?: string
  /** What requests get that do not say; what is left out here is {@link nativeDefaults}. */
  readonly defaults?: DefaultOverrides
  /** The engine's limit, shown by `GET /health?level=full`; default: that of `EngineOptions`. */
  readonly maxQueuedRequests?: number
}

const { version: packageVersion } = createRequire(import.meta.url)('../../package.json') as {
  readonly version: string
}

const routes: readonly HandledRoute<NativeContext>[] = [
  { method: 'get', path: '/', summary: 'This overview', handle: root },
  {
    method: 'get',
    path: '/health',
    summary: 'Health: ?level=basic, detailed or full',
    query: healthQuery,
    handle: health,
  },
  {
    method: 'post',
    path: '/generate',
    summary: 'Generate text',
    body: generateSchema,
    answers: ['application/json', 'text/event-stream'],
    handle: generate,
  },
  {
    method: 'post',
    path: '/generate_stream',
    summary: 'Generate text, streamed as server-sent events',
    body: generateSchema,
    answers: ['text/event-stream'],
    handle: generateStream,
  },
  {
    method: 'post',
    path: '/encode',
    summary: 'Text to tokens',
    body: encodeSchema,
    handle: encode,
  },
  {
    method: 'post',
    path: '/decode',
    summary: 'Tokens to text',
    body: decodeSchema,
    handle: decode,
  },
  { method: 'get', path: '/model/info', summary: 'The model and its shape', handle: modelInfo },
  {
    method: 'post',
    path: '/benchmark',
    summary: 'Generate several times at once, and how fast that was',
    body: benchmarkSchema,
    handle: benchmark,
  },
  {
    method: 'get',
    path: '/requests/:id',
    summary: 'What happened to a request',
    handle: requestReport,
  },
  {
    method: 'get',
    path: '/health/live',
    summary: 'Whether the process lives, for orchestrators',
    handle: live,
  },
  {
    method: 'get',
    path: '/health/ready',
    summary: 'Whether requests are served now, for orchestrators',
    handle: ready,
  },
]

/**
 * The API of the original cLLM server, served by the directory's default engine. Its JSON is kept;
 * see `docs/api.md`.
 */
export function nativeProtocol(options: NativeProtocolOptions = {}): KoaProtocol {
  return {
    name: 'native',
    routes,
    mount(router: KoaRouter, directory: EngineDirectory) {
      mountRoutes(router, routes, {
        directory,
        version: options.version ?? packageVersion,
        defaults: withOverrides(nativeDefaults, options.defaults),
        maxQueuedRequests: options.maxQueuedRequests ?? defaultEngineOptions.maxQueuedRequests,
        routes,
        unknownFields: new UnknownFields(),
        waitTimes: new WaitTimes(),
      })
    },
  }
}
