import { createRequire } from 'node:module'
import { defaultEngineOptions, type EngineDirectory } from '@cllm/core'
import type { z } from 'zod'
import type { KoaProtocol, KoaRouter } from '../koa-context.js'
import { benchmark } from './benchmark.js'
import type { ApiRoute } from '../request/api-route.js'
import { decode } from './decode.js'
import { encode } from './encode.js'
import { generateSchema, nativeDefaults, type NativeDefaults } from './generate-request.js'
import { generate, generateStream } from './generate.js'
import { health, live, ready } from './health.js'
import { modelInfo } from './model-info.js'
import type { NativeContext, NativeEndpoint } from './native-context.js'
import { requestReport } from './request-report.js'
import { root } from './root.js'
import { UnknownFields } from './unknown-fields.js'
import { WaitTimes } from './wait-times.js'

/** Settings of {@link nativeProtocol}. */
export interface NativeProtocolOptions {
  /** Shown by `GET /`; default: the version of this package. */
  readonly version?: string
  /** What requests get that do not say; what is left out here is {@link nativeDefaults}. */
  readonly defaults?: Partial<NativeDefaults>
  /** The engine's limit, shown by `GET /health?level=full`; default: that of `EngineOptions`. */
  readonly maxQueuedRequests?: number
}

const { version: packageVersion } = createRequire(import.meta.url)('../../package.json') as {
  readonly version: string
}

const endpoints: readonly NativeEndpoint[] = [
  { method: 'GET', path: '/', description: 'This overview', handle: root },
  {
    method: 'GET',
    path: '/health',
    description: 'Health: ?level=basic, detailed or full',
    handle: health,
  },
  { method: 'POST', path: '/generate', description: 'Generate text', handle: generate },
  {
    method: 'POST',
    path: '/generate_stream',
    description: 'Generate text, streamed as server-sent events',
    handle: generateStream,
  },
  { method: 'POST', path: '/encode', description: 'Text to tokens', handle: encode },
  { method: 'POST', path: '/decode', description: 'Tokens to text', handle: decode },
  { method: 'GET', path: '/model/info', description: 'The model and its shape', handle: modelInfo },
  {
    method: 'POST',
    path: '/benchmark',
    description: 'Generate several times at once, and how fast that was',
    handle: benchmark,
  },
  {
    method: 'GET',
    path: '/requests/:id',
    description: 'What happened to a request',
    handle: requestReport,
  },
  {
    method: 'GET',
    path: '/health/live',
    description: 'Whether the process lives, for orchestrators',
    handle: live,
  },
  {
    method: 'GET',
    path: '/health/ready',
    description: 'Whether requests are served now, for orchestrators',
    handle: ready,
  },
]

const bodies: Readonly<Record<string, z.ZodObject>> = {
  '/generate': generateSchema,
  '/generate_stream': generateSchema,
}

const routes: readonly ApiRoute[] = endpoints.map(({ method, path, description }) => ({
  method: method === 'GET' ? 'get' : 'post',
  path,
  summary: description,
  ...(bodies[path] === undefined ? {} : { body: bodies[path] }),
  ...(path === '/generate_stream' ? { answers: ['text/event-stream'] } : {}),
}))

/**
 * The API of the original cLLM server, served by the directory's default engine. Its JSON is kept;
 * see `docs/api.md`.
 */
export function nativeProtocol(options: NativeProtocolOptions = {}): KoaProtocol {
  return {
    name: 'native',
    routes,
    mount(router: KoaRouter, directory: EngineDirectory) {
      const native: NativeContext = {
        directory,
        version: options.version ?? packageVersion,
        defaults: {
          maxTokens: options.defaults?.maxTokens ?? nativeDefaults.maxTokens,
          sampling: { ...nativeDefaults.sampling, ...options.defaults?.sampling },
        },
        maxQueuedRequests: options.maxQueuedRequests ?? defaultEngineOptions.maxQueuedRequests,
        endpoints,
        unknownFields: new UnknownFields(),
        waitTimes: new WaitTimes(),
      }
      for (const { method, path, handle } of endpoints) {
        const route = method === 'GET' ? router.get.bind(router) : router.post.bind(router)
        route(path, (ctx) => handle(ctx, native))
      }
    },
  }
}
