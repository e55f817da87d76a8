import { createRequire } from 'node:module'
import { defaultEngineOptions, type EngineDirectory } from '@cllm/core'
import type { KoaContext, KoaProtocol, KoaRouter } from '../../routes/koa-context.js'
import { defineProtocol } from '../../routes/define-protocol.js'
import type { HandledRoute } from '../../routes/api-route.js'
import { mountRoutes } from '../../routes/mount-routes.js'
import {
  type DefaultOverrides,
  defaultsOptions,
  overridesFrom,
  withOverrides,
} from '../../request/protocol-defaults.js'
import { nativeDefaults } from './native-defaults.js'
import { benchmark, benchmarkSchema } from './benchmark.js'
import { generateSchema } from './generate-request.js'
import { generate, generateStream } from './generate.js'
import { health, healthQuery, live, ready } from './health.js'
import { modelInfo } from './model-info.js'
import { type NativeContext, WaitTimes } from './native-context.js'
import { requestReport } from './request-report.js'
import { decode, decodeSchema, encode, encodeSchema } from './text-routes.js'
import { UnknownFields } from '../../fields/unknown-fields.js'

/** Settings of {@link nativeProtocol}. */
export interface NativeProtocolOptions {
  /** Shown by `GET /`; default: the version of this package. */
  readonly version?: string
  /** Values for omitted fields, in place of {@link nativeDefaults}. */
  readonly defaults?: DefaultOverrides
  /** The engine's limit, shown by `GET /health?level=full`; default: that of `EngineOptions`. */
  readonly maxQueuedRequests?: number
}

const { version: packageVersion } = createRequire(import.meta.url)('../../../package.json') as {
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
    summary: 'Tokenize a text',
    body: encodeSchema,
    handle: encode,
  },
  {
    method: 'post',
    path: '/decode',
    summary: 'Detokenize tokens',
    body: decodeSchema,
    handle: decode,
  },
  { method: 'get', path: '/model/info', summary: 'The model and its shape', handle: modelInfo },
  {
    method: 'post',
    path: '/benchmark',
    summary: 'Run concurrent generations and measure their speed',
    body: benchmarkSchema,
    handle: benchmark,
  },
  {
    method: 'get',
    path: '/requests/:id',
    summary: 'The history of a request',
    handle: requestReport,
  },
  {
    method: 'get',
    path: '/health/live',
    summary: 'Liveness probe',
    handle: live,
  },
  {
    method: 'get',
    path: '/health/ready',
    summary: 'Readiness probe',
    handle: ready,
  },
]

/** `GET /`: the server's name, version and routes. */
function root(ctx: KoaContext, native: NativeContext): void {
  const endpoints = native.routes.map(({ method, path, summary }) => ({
    method: method.toUpperCase(),
    path,
    description: summary,
  }))
  const data = { name: 'cLLM Server', version: native.version, endpoints }
  ctx.body = { success: true, data, ollama: 'Ollama is running' }
}

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

/** {@link nativeProtocol} by its name. */
export const native = defineProtocol({
  name: 'native',
  doc: 'The API of the original cLLM server, with health checks.',
  options: defaultsOptions,
  defaults: { '/generate': nativeDefaults },
  create: (options, { defaults, maxQueuedRequests }) =>
    nativeProtocol({
      defaults: overridesFrom(options, defaults),
      ...(maxQueuedRequests === undefined ? {} : { maxQueuedRequests }),
    }),
})
