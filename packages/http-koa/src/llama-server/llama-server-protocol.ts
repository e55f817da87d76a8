import type { EngineDirectory } from '@cllm/core'
import { statusElsewhere } from '../error-body.js'
import type { KoaProtocol, KoaRouter } from '../koa-context.js'
import { modelQuery } from '../models/look-at-models.js'
import { UnknownFields } from '../native/unknown-fields.js'
import type { HandledRoute } from '../request/api-route.js'
import { mountRoutes } from '../request/mount-routes.js'
import type { DefaultOverrides } from '../request/protocol-defaults.js'
import { completion } from './completion.js'
import { completionSchema } from './completion-request.js'
import { embedding, embeddingSchema } from './embedding.js'
import { infill, infillSchema } from './infill.js'
import type { LlamaServerContext } from './llama-server-context.js'
import { llamaServerErrorBody, llamaServerErrorSchema } from './llama-server-error.js'
import { health, props, slots, slotsQuery } from './state-routes.js'
import {
  applyTemplate,
  applyTemplateSchema,
  detokenize,
  detokenizeSchema,
  tokenize,
  tokenizeSchema,
} from './text-routes.js'

/** Settings of {@link llamaServerProtocol}. */
export interface LlamaServerProtocolOptions {
  /** What requests get that do not say, in place of llama-server's own defaults. */
  readonly defaults?: DefaultOverrides
}

const answers = ['application/json', 'text/event-stream']
const complete = { body: completionSchema, answers, handle: completion } as const
const embed = { body: embeddingSchema, handle: embedding } as const

const routes: readonly HandledRoute<LlamaServerContext>[] = [
  { method: 'post', path: '/completion', summary: 'Continue a text', ...complete },
  { method: 'post', path: '/completions', summary: 'The same as /completion', ...complete },
  {
    method: 'post',
    path: '/infill',
    summary: 'What stands between a prefix and a suffix',
    body: infillSchema,
    answers,
    handle: infill,
  },
  {
    method: 'post',
    path: '/tokenize',
    summary: 'Text to tokens',
    body: tokenizeSchema,
    handle: tokenize,
  },
  {
    method: 'post',
    path: '/detokenize',
    summary: 'Tokens to text',
    body: detokenizeSchema,
    handle: detokenize,
  },
  {
    method: 'post',
    path: '/apply-template',
    summary: "A conversation as the model's template writes it",
    body: applyTemplateSchema,
    handle: applyTemplate,
  },
  { method: 'post', path: '/embedding', summary: 'Texts to vectors', ...embed },
  { method: 'post', path: '/embeddings', summary: 'The same as /embedding', ...embed },
  {
    method: 'get',
    path: '/props',
    summary: 'The model and the defaults',
    query: modelQuery,
    handle: props,
  },
  {
    method: 'get',
    path: '/slots',
    summary: 'What the slots do',
    query: slotsQuery,
    handle: slots,
  },
  { method: 'get', path: '/health', summary: 'Health', handle: health },
  { method: 'get', path: '/v1/health', summary: 'Health', handle: health },
]

/** Health is everyone's; without the native API it is worded as here. */
const own = new Set(routes.map(({ path }) => path).filter((path) => !path.endsWith('/health')))

/** The API of llama.cpp's llama-server, besides its OpenAI part; see `docs/api-llama-server.md`. */
export function llamaServerProtocol(options: LlamaServerProtocolOptions = {}): KoaProtocol {
  return {
    name: 'llama-server',
    routes,
    errors: {
      covers: (path) => own.has(path),
      status: statusElsewhere,
      body: llamaServerErrorBody,
      schema: llamaServerErrorSchema,
    },
    mount(router: KoaRouter, directory: EngineDirectory) {
      mountRoutes(router, routes, {
        directory,
        overrides: options.defaults ?? {},
        unknownFields: new UnknownFields(),
      })
    },
  }
}
