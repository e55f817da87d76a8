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
import { bindRoutes, type Route, get, post } from '../../routes/route.js'
import type { DefaultOverrides } from '../../request/build-request.js'
import {
  defaultsOptions,
  eachWithOverrides,
  overridesFrom,
} from '../../request/protocol-defaults.js'
import { type OpenAiContext, openAiDefaults } from './openai-context.js'
import { chatSchema } from './chat/chat-request.js'
import { chatCompletions, countChatTokens } from './chat/chat.js'
import { completionsSchema } from './completions/completions-request.js'
import { completions } from './completions/completions.js'
import { fimCompletions, fimSchema } from './completions/fim.js'
import { embeddings, embeddingsSchema } from './embeddings.js'
import { listModels, showModel } from './models.js'
import { rerank, rerankSchema, score, scoreSchema } from '../../request/embeddings.js'
import { openAiErrors } from './openai-error.js'
import { responsesSchema } from './responses/responses-request.js'
import type { McpServers } from '../mcp/mcp-servers.js'
import { KeptItems } from './responses/kept-items.js'
import { keptRoutes } from './responses/kept-routes.js'
import { transcription, transcriptionSchema } from './transcriptions/transcriptions.js'
import { streamRoutes } from './stream-routes.js'
import { countResponseTokens, notCompacted, responses } from './responses/responses.js'

/** Settings of {@link openAiProtocol}. */
export interface OpenAiProtocolOptions {
  /** Values for omitted fields, in place of OpenAI's own defaults. */
  readonly defaults?: DefaultOverrides
  /** The creation date of every model, in milliseconds since the epoch; default 0. */
  readonly started?: number
  /** The level of the server's logger: answers to chats show the prompt below `info`, as llama-server's do. */
  readonly log?: LogLevelControl
  /** Where responses and conversations are kept. Default: nowhere, and what needs it is refused. */
  readonly responses?: SharedStates | undefined
  /** The MCP servers whose tools Responses may name; default: none. */
  readonly mcp?: McpServers
}

const streams = ['application/json', 'text/event-stream']

/** Routes that llama-server has without `/v1`, too. */
const both = (...routes: readonly Route<OpenAiContext>[]): Route<OpenAiContext>[] =>
  routes.flatMap((route) => [
    route,
    { ...route, path: route.path.slice('/v1'.length), summary: `The same as ${route.path}` },
  ])

const routes: readonly Route<OpenAiContext>[] = [
  get('/v1/models', 'user', 'The models that are served', listModels),
  get('/v1/models/*id', 'user', 'One model', showModel),
  ...both(
    post('/v1/chat/completions', 'user', 'Answer a conversation', chatCompletions, {
      body: chatSchema,
      answers: streams,
    }),
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
      { body: responsesSchema, answers: streams },
    ),
    post(
      '/v1/responses/input_tokens',
      'user',
      'Count the tokens of an input',
      countResponseTokens,
      { body: responsesSchema },
    ),
    post('/v1/responses/compact', 'user', 'Is refused: nothing is summarized', notCompacted, {
      isHidden: true,
    }),
    post('/v1/rerank', 'user', 'Order documents by how well they fit a query', rerank, {
      body: rerankSchema,
    }),
    post('/v1/reranking', 'user', 'The same as /v1/rerank', rerank, { body: rerankSchema }),
    post('/v1/score', 'user', 'Say how well texts fit', score, { body: scoreSchema }),
    post(
      '/v1/audio/transcriptions',
      'user',
      'Write what is said in a sound, as multipart/form-data',
      transcription('transcribe'),
      { form: transcriptionSchema, answers: streams },
    ),
  ),
  post('/v2/rerank', 'user', 'The same as /v1/rerank', rerank, { body: rerankSchema }),
  post('/v1/completions', 'user', 'Continue a text', completions, {
    body: completionsSchema,
    answers: streams,
  }),
  post(
    '/v1/fim/completions',
    'user',
    "Fill the gap between a prompt and a suffix, in the format of Mistral's API",
    fimCompletions,
    { body: fimSchema, answers: streams },
  ),
  post('/v1/embeddings', 'user', 'Embed texts', embeddings, { body: embeddingsSchema }),
  post('/v1/audio/translations', 'user', 'The same in English', transcription('translate'), {
    form: transcriptionSchema,
    answers: streams,
  }),
  ...streamRoutes,
]

/** OpenAI's API: chats, responses, completions, embeddings and models under `/v1`; see `docs/api-openai.md`. */
export function openAiProtocol(options: OpenAiProtocolOptions = {}): KoaProtocol {
  const kept = options.responses && new KeptItems(options.responses)
  const own: OpenAiContext = {
    defaults: eachWithOverrides(openAiDefaults, options.defaults),
    started: Math.floor((options.started ?? 0) / 1000),
    kept,
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
