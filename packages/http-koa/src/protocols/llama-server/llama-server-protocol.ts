import { nativeErrors, statusElsewhere } from '../../errors/error-body.js'
import type { KoaProtocol } from '../../routes/koa-context.js'
import { modelQuery } from '../../engines/model-queries.js'
import { defineProtocol } from '../../routes/define-protocol.js'
import { bindRoutes, type Route, post, get } from '../../routes/route.js'
import type { DefaultOverrides } from '../../request/build-request.js'
import { defaultsOptions, overridesFrom, withOverrides } from '../../request/protocol-defaults.js'
import { completion } from './completion.js'
import {
  completionSchema,
  type LlamaServerContext,
  llamaServerDefaults,
} from './completion-request.js'
import { infill, infillSchema } from './infill.js'
import { boolean } from '../../fields/fields.js'
import { llamaServerErrorBody, llamaServerErrorSchema } from './llama-server-error.js'
import { openAiErrors } from '../openai/openai-error.js'
import {
  health,
  loraAdapters,
  props,
  setLoraAdapters,
  slotAction,
  slotActionQuery,
  slots,
  slotsQuery,
} from './state-routes.js'
import {
  applyTemplate,
  applyTemplateSchema,
  detokenize,
  detokenizeSchema,
  embedding,
  embeddingSchema,
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

const completed = { body: completionSchema, answers: ['application/json', 'text/event-stream'] }
const embedded = { body: embeddingSchema }

const routes: readonly Route<LlamaServerContext>[] = [
  post('/completion', 'user', 'Continue a text', completion, completed),
  post('/completions', 'user', 'The same as /completion', completion, completed),
  post('/infill', 'user', 'Fill in the text between a prefix and a suffix', infill, {
    ...completed,
    body: infillSchema,
  }),
  post('/tokenize', 'user', 'Tokenize a text', tokenize, { body: tokenizeSchema }),
  post('/detokenize', 'user', 'Detokenize tokens', detokenize, { body: detokenizeSchema }),
  post(
    '/apply-template',
    'user',
    "Render a conversation with the model's chat template",
    applyTemplate,
    { body: applyTemplateSchema },
  ),
  post('/embedding', 'user', 'Embed texts', embedding, embedded),
  post('/embeddings', 'user', 'The same as /embedding', embedding, embedded),
  get('/props', 'user', 'The model and the defaults', props, { query: modelQuery }),
  get('/slots', 'user', 'The state of the slots', slots, { query: slotsQuery }),
  post('/slots/:id', 'user', 'Save, restore or erase a slot', slotAction, {
    query: slotActionQuery,
  }),
  get(
    '/lora-adapters',
    'user',
    'The adapters, and which are applied to requests that name none',
    loraAdapters,
    { query: modelQuery },
  ),
  post(
    '/lora-adapters',
    'admin',
    'Apply adapters to all requests that name none',
    setLoraAdapters,
    { query: modelQuery },
  ),
  get('/health', 'open', 'Health', health, { isQuiet: true, errors: nativeErrors }),
  get('/v1/health', 'open', 'Health', health, { isQuiet: true, errors: openAiErrors }),
]

/** The API of llama.cpp's llama-server, besides its OpenAI part; see `docs/api-llama-server.md`. */
export function llamaServerProtocol(options: LlamaServerProtocolOptions = {}): KoaProtocol {
  return {
    name: 'llama-server',
    routes: bindRoutes(routes, {
      defaults: withOverrides(llamaServerDefaults, options.defaults),
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
  defaults: { '/completion': llamaServerDefaults },
  create: ({ slots = true, ...options }, services) =>
    llamaServerProtocol({ slots, defaults: overridesFrom(options, services) }),
})
