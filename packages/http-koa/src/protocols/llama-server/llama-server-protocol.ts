import type { EngineDirectory } from '@cllm/core'
import { statusElsewhere } from '../../errors/error-body.js'
import type { KoaProtocol, KoaRouter } from '../../routes/koa-context.js'
import { modelQuery } from '../../engines/model-queries.js'
import { UnknownFields } from '../../fields/unknown-fields.js'
import { defineProtocol } from '../../routes/define-protocol.js'
import type { HandledRoute } from '../../routes/api-route.js'
import { mountRoutes } from '../../routes/mount-routes.js'
import {
  type DefaultOverrides,
  defaultsOptions,
  overridesFrom,
} from '../../request/protocol-defaults.js'
import { llamaServerDefaults } from './llama-server-defaults.js'
import { completion } from './completion.js'
import { completionSchema } from './completion-request.js'
import { embedding, embeddingSchema } from './embedding.js'
import { loraAdapters, setLoraAdapters } from './lora-adapters.js'
import { infill, infillSchema } from './infill.js'
import { boolean } from '../../fields/fields.js'
import type { LlamaServerContext } from './llama-server-context.js'
import { llamaServerErrorBody, llamaServerErrorSchema } from './llama-server-error.js'
import { health, props, slotAction, slotActionQuery, slots, slotsQuery } from './state-routes.js'
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
  /** Values for omitted fields, in place of llama-server's own defaults. */
  readonly defaults?: DefaultOverrides
  /** Whether `GET /slots` shows what the slots do; default true. */
  readonly slots?: boolean
}

const optionsSchema = defaultsOptions.extend({ slots: boolean.optional() })

const answers = ['application/json', 'text/event-stream']
const complete = { body: completionSchema, answers, handle: completion } as const
const embed = { body: embeddingSchema, handle: embedding } as const

const routes: readonly HandledRoute<LlamaServerContext>[] = [
  { method: 'post', path: '/completion', summary: 'Continue a text', ...complete },
  { method: 'post', path: '/completions', summary: 'The same as /completion', ...complete },
  {
    method: 'post',
    path: '/infill',
    summary: 'Fill in the text between a prefix and a suffix',
    body: infillSchema,
    answers,
    handle: infill,
  },
  {
    method: 'post',
    path: '/tokenize',
    summary: 'Tokenize a text',
    body: tokenizeSchema,
    handle: tokenize,
  },
  {
    method: 'post',
    path: '/detokenize',
    summary: 'Detokenize tokens',
    body: detokenizeSchema,
    handle: detokenize,
  },
  {
    method: 'post',
    path: '/apply-template',
    summary: "Render a conversation with the model's chat template",
    body: applyTemplateSchema,
    handle: applyTemplate,
  },
  { method: 'post', path: '/embedding', summary: 'Embed texts', ...embed },
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
    summary: 'The state of the slots',
    query: slotsQuery,
    handle: slots,
  },
  {
    method: 'post',
    path: '/slots/:id',
    summary: 'Save, restore or erase a slot',
    query: slotActionQuery,
    handle: slotAction,
  },
  {
    method: 'get',
    path: '/lora-adapters',
    summary: 'The adapters, and which are applied to requests that name none',
    query: modelQuery,
    handle: loraAdapters,
  },
  {
    method: 'post',
    path: '/lora-adapters',
    summary: 'Apply adapters to all requests that name none',
    query: modelQuery,
    handle: setLoraAdapters,
  },
  { method: 'get', path: '/health', summary: 'Health', handle: health },
  { method: 'get', path: '/v1/health', summary: 'Health', handle: health },
]

/** Health checks are shared with the native API, whose error format they have. */
const own = new Set(routes.map(({ path }) => path).filter((path) => !path.endsWith('/health')))

/** The API of llama.cpp's llama-server, besides its OpenAI part; see `docs/api-llama-server.md`. */
export function llamaServerProtocol(options: LlamaServerProtocolOptions = {}): KoaProtocol {
  return {
    name: 'llama-server',
    routes,
    errors: {
      covers: (path) => own.has(path) || path.startsWith('/slots/'),
      status: statusElsewhere,
      body: llamaServerErrorBody,
      schema: llamaServerErrorSchema,
    },
    mount(router: KoaRouter, directory: EngineDirectory) {
      mountRoutes(router, routes, {
        directory,
        overrides: options.defaults ?? {},
        unknownFields: new UnknownFields(),
        showsSlots: options.slots ?? true,
      })
    },
  }
}

/** {@link llamaServerProtocol} by its name. */
export const llamaServer = defineProtocol({
  name: 'llama-server',
  doc: "The API of llama.cpp's llama-server, besides its OpenAI part.",
  options: optionsSchema,
  defaults: llamaServerDefaults,
  create: ({ slots = true, ...options }, { defaults }) =>
    llamaServerProtocol({ slots, defaults: overridesFrom(options, defaults) }),
})
