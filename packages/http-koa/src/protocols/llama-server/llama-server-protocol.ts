import { nativeErrors, statusElsewhere } from '../../errors/error-body.js'
import type { KoaProtocol } from '../../routes/koa-context.js'
import { modelQuery } from '../../engines/model-queries.js'
import { defineProtocol } from '../../routes/define-protocol.js'
import { bindRoutes, type Route, route } from '../../routes/route.js'
import {
  type DefaultOverrides,
  defaultsOptions,
  overridesFrom,
} from '../../request/protocol-defaults.js'
import { completion } from './completion.js'
import { completionSchema } from './completion-request.js'
import { embedding, embeddingSchema } from './embedding.js'
import { loraAdapters, setLoraAdapters } from './lora-adapters.js'
import { infill, infillSchema } from './infill.js'
import { boolean } from '../../fields/fields.js'
import { type LlamaServerContext, llamaServerDefaults } from './llama-server-context.js'
import { llamaServerErrorBody, llamaServerErrorSchema } from './llama-server-error.js'
import { openAiErrors } from '../openai/openai-error.js'
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
const complete = { access: 'user', body: completionSchema, answers, handle: completion } as const
const embed = { access: 'user', body: embeddingSchema, handle: embedding } as const
const healthy = { access: 'open', summary: 'Health', isProbe: true, handle: health } as const

const routes: readonly Route<LlamaServerContext>[] = [
  route({ method: 'post', path: '/completion', summary: 'Continue a text', ...complete }),
  route({ method: 'post', path: '/completions', summary: 'The same as /completion', ...complete }),
  route({
    method: 'post',
    path: '/infill',
    access: 'user',
    summary: 'Fill in the text between a prefix and a suffix',
    body: infillSchema,
    answers,
    handle: infill,
  }),
  route({
    method: 'post',
    path: '/tokenize',
    access: 'user',
    summary: 'Tokenize a text',
    body: tokenizeSchema,
    handle: tokenize,
  }),
  route({
    method: 'post',
    path: '/detokenize',
    access: 'user',
    summary: 'Detokenize tokens',
    body: detokenizeSchema,
    handle: detokenize,
  }),
  route({
    method: 'post',
    path: '/apply-template',
    access: 'user',
    summary: "Render a conversation with the model's chat template",
    body: applyTemplateSchema,
    handle: applyTemplate,
  }),
  route({ method: 'post', path: '/embedding', summary: 'Embed texts', ...embed }),
  route({ method: 'post', path: '/embeddings', summary: 'The same as /embedding', ...embed }),
  route({
    method: 'get',
    path: '/props',
    access: 'user',
    summary: 'The model and the defaults',
    query: modelQuery,
    handle: props,
  }),
  route({
    method: 'get',
    path: '/slots',
    access: 'user',
    summary: 'The state of the slots',
    query: slotsQuery,
    handle: slots,
  }),
  route({
    method: 'post',
    path: '/slots/:id',
    access: 'user',
    summary: 'Save, restore or erase a slot',
    query: slotActionQuery,
    handle: slotAction,
  }),
  route({
    method: 'get',
    path: '/lora-adapters',
    access: 'user',
    summary: 'The adapters, and which are applied to requests that name none',
    query: modelQuery,
    handle: loraAdapters,
  }),
  route({
    method: 'post',
    path: '/lora-adapters',
    access: 'admin',
    summary: 'Apply adapters to all requests that name none',
    query: modelQuery,
    handle: setLoraAdapters,
  }),
  { method: 'get', path: '/health', errors: nativeErrors, ...healthy },
  { method: 'get', path: '/v1/health', errors: openAiErrors, ...healthy },
]

/** The API of llama.cpp's llama-server, besides its OpenAI part; see `docs/api-llama-server.md`. */
export function llamaServerProtocol(options: LlamaServerProtocolOptions = {}): KoaProtocol {
  return {
    name: 'llama-server',
    routes: bindRoutes(routes, {
      overrides: options.defaults ?? {},
      showsSlots: options.slots ?? true,
    }),
    errors: {
      name: 'llama-server-error',
      status: statusElsewhere,
      body: llamaServerErrorBody,
      schema: llamaServerErrorSchema,
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
