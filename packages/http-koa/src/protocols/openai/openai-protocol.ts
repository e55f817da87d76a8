import { requestId } from '@cllm/host'
import { z } from 'zod'
import { bindRoutes, get, post, streamed, wholeOrEvents } from '../../routes/route.js'
import type { Answer, CallOf, Route } from '../../routes/route.js'
import {
  usageOfInputs,
  embedAll,
  shortened,
  rerank,
  rerankSchema,
  score,
  scoreSchema,
} from '../../request/embeddings.js'
import { mixedPrompts, readPrompts } from '../../fields/mixed-prompts.js'
import { integer, largest } from '../../fields/fields.js'
import { defined, type SharedStates } from '@cllm/core'
import type { KoaProtocol } from '../../routes/koa-context.js'
import {
  defineProtocol,
  LOG_LEVEL,
  MCP_SERVERS,
  STARTED_AT,
  STORED_RESPONSES,
  type LogLevelControl,
} from '../../routes/define-protocol.js'
import type { DefaultOverrides } from '../../request/build-request.js'
import {
  defaultsOptions,
  eachWithOverrides,
  overridesFrom,
} from '../../request/protocol-defaults.js'
import { type OpenAiContext, openAiDefaults, openAiErrors } from './openai-answer.js'
import { chatSchema } from './chat-request.js'
import { chatCompletions, countChatTokens } from './chat.js'
import { completionsSchema, completions } from './completions.js'
import { fimCompletions, fimSchema } from './fim.js'
import { listModels, showModel } from './models.js'
import { responsesSchema } from './responses/responses-request.js'
import type { McpServers } from '../mcp/mcp-servers.js'
import { KeptItems } from './responses/kept-items.js'
import { RecentItems } from './responses/response-items.js'
import { keptRoutes } from './responses/kept-routes.js'
import { transcription, transcriptionSchema } from './transcriptions.js'
import { streamRoutes } from './stream-routes.js'
import { countResponseTokens, notCompacted, responses } from './responses/responses.js'

/** The body of `POST /v1/embeddings`. */
const embeddingsSchema = z.object({
  input: mixedPrompts(2048),
  model: z.string('a name').optional(),
  encoding_format: z.enum(['float', 'base64'], 'float or base64').optional(),
  dimensions: integer(1, largest).optional(),
  embd_normalize: z.literal(2, '2: vectors always have the Euclidean length 1').optional(),
  user: z.string('a string').optional(),
})

/** `POST /v1/embeddings`. */
async function embeddings(call: CallOf<typeof embeddingsSchema>): Promise<Answer> {
  const { fields } = call
  const { model, client } = call.open(fields.model)
  const prompts = await readPrompts(client, fields.input)
  // a vector store expects exactly the requested length
  const { dimensions = 0 } = fields
  const made = await embedAll(client, prompts, call.signal, { dimensions })
  const isBase64 = fields.encoding_format === 'base64'
  return {
    // OpenAI has no id here; Mistral's clients expect one
    id: `embd-${requestId(call.random)}`,
    object: 'list',
    data: made.map((one, index) => {
      const vector = shortened(one.vector, fields.dimensions)
      return { object: 'embedding', index, embedding: isBase64 ? toBase64(vector) : vector }
    }),
    model,
    usage: usageOfInputs(made),
  }
}

/** Base64 of 32-bit floats in little-endian order, on machines of any byte order. */
function toBase64(vector: readonly number[]): string {
  const bytes = Buffer.alloc(vector.length * 4)
  for (const [index, value] of vector.entries()) bytes.writeFloatLE(value, index * 4)
  return bytes.toString('base64')
}

/** Settings of {@link openAiProtocol}. */
export interface OpenAiProtocolOptions {
  /** Values for omitted fields, in place of OpenAI's own defaults. */
  readonly defaults?: DefaultOverrides
  /** The creation date of every model, in milliseconds since the epoch; default 0. */
  readonly started?: number
  /** The level of the server's logger: below `info`, answers to chats show the prompt, as in llama-server. */
  readonly log?: LogLevelControl
  /** The store of responses and conversations. Default: none, and requests that need it are refused. */
  readonly responses?: SharedStates | undefined
  /** The MCP servers that Responses can name; default: none. */
  readonly mcp?: McpServers
}

/** Routes that llama-server also has without `/v1`. */
const both = (...routes: readonly Route<OpenAiContext>[]): Route<OpenAiContext>[] =>
  routes.flatMap((route) => [
    route,
    { ...route, path: route.path.slice('/v1'.length), summary: `The same as ${route.path}` },
  ])

const form = { form: transcriptionSchema, answers: [...wholeOrEvents, 'text/plain', 'text/vtt'] }

const routes: readonly Route<OpenAiContext>[] = [
  get('/v1/models', 'user', 'The models that are served', listModels, { isAnthropics: true }),
  get('/v1/models/*id', 'user', 'One model', showModel, { isAnthropics: true }),
  ...both(
    post(
      '/v1/chat/completions',
      'user',
      'Answer a conversation',
      chatCompletions,
      streamed(chatSchema),
    ),
    post(
      '/v1/chat/completions/input_tokens',
      'user',
      'Count the tokens of a conversation',
      countChatTokens,
      { body: chatSchema },
    ),
    post(
      '/v1/responses',
      'user',
      'Answer a conversation, in the format of the Responses API',
      responses,
      streamed(responsesSchema),
    ),
    post(
      '/v1/responses/input_tokens',
      'user',
      'Count the tokens of an input',
      countResponseTokens,
      { body: responsesSchema },
    ),
    post('/v1/responses/compact', 'user', 'Not supported: nothing is summarized', notCompacted, {
      isHidden: true,
    }),
    post('/v1/rerank', 'user', 'Order documents by how well they fit a query', rerank, {
      body: rerankSchema,
    }),
    post('/v1/reranking', 'user', 'The same as /v1/rerank', rerank, { body: rerankSchema }),
    post('/v1/score', 'user', 'Score how well texts fit each other', score, { body: scoreSchema }),
    post(
      '/v1/audio/transcriptions',
      'user',
      'Transcribe a sound, sent as multipart/form-data',
      transcription('transcribe'),
      form,
    ),
  ),
  post('/v2/rerank', 'user', 'The same as /v1/rerank', rerank, { body: rerankSchema }),
  post('/v1/completions', 'user', 'Continue a text', completions, streamed(completionsSchema)),
  post(
    '/v1/fim/completions',
    'user',
    "Fill the gap between a prompt and a suffix, in the format of Mistral's API",
    fimCompletions,
    streamed(fimSchema),
  ),
  post('/v1/embeddings', 'user', 'Embed texts', embeddings, { body: embeddingsSchema }),
  post('/v1/audio/translations', 'user', 'Transcribe in English', transcription('translate'), form),
  ...streamRoutes,
]

/** OpenAI's API: chats, responses, completions, embeddings and models under `/v1`; see `docs/api-openai.md`. */
export function openAiProtocol(options: OpenAiProtocolOptions = {}): KoaProtocol {
  const kept = options.responses && new KeptItems(options.responses)
  const own: OpenAiContext = {
    defaults: eachWithOverrides(openAiDefaults, options.defaults),
    started: Math.floor((options.started ?? 0) / 1000),
    kept,
    recent: new RecentItems(),
    log: options.log,
    mcp: options.mcp,
  }
  const ofKept = kept === undefined ? [] : bindRoutes(keptRoutes, { ...own, kept })
  return {
    name: 'openai',
    routes: [...bindRoutes(routes, own), ...ofKept],
    errors: openAiErrors,
    under: ['/v1', '/chat/completions'],
    ...(kept && { unkept: kept.unkept }),
  }
}

/** {@link openAiProtocol} by its name. */
export const openAi = defineProtocol({
  name: 'openai',
  doc: "OpenAI's API under `/v1`.",
  options: defaultsOptions,
  defaults: openAiDefaults,
  create: (options, services) =>
    openAiProtocol({
      defaults: overridesFrom(options, services),
      started: services.get(STARTED_AT) ?? 0,
      ...defined({
        log: services.get(LOG_LEVEL),
        mcp: services.get(MCP_SERVERS),
        responses: services.get(STORED_RESPONSES),
      }),
    }),
})
