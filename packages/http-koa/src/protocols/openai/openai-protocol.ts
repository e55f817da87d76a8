import type { KoaProtocol } from '../../routes/koa-context.js'
import { defineProtocol } from '../../routes/define-protocol.js'
import { bindRoutes, type Route, route } from '../../routes/route.js'
import {
  type DefaultOverrides,
  defaultsOptions,
  overridesFrom,
} from '../../request/protocol-defaults.js'
import { openAiDefaults } from './openai-defaults.js'
import { chatSchema } from './chat/chat-request.js'
import { chatCompletions, countChatTokens } from './chat/chat.js'
import { completionsSchema } from './completions/completions-request.js'
import { completions } from './completions/completions.js'
import { fimCompletions, fimSchema } from './completions/fim.js'
import { embeddings, embeddingsSchema } from './embeddings.js'
import { listModels, showModel } from './models.js'
import type { OpenAiContext } from './openai-context.js'
import { rerank, rerankSchema, score, scoreSchema } from '../rerank/rerank.js'
import { openAiErrors } from './openai-error.js'
import { responsesSchema } from './responses/responses-request.js'
import { streamRoutes } from '../../stream/resume/stream-routes.js'
import { countResponseTokens, responses } from './responses/responses.js'

/** Settings of {@link openAiProtocol}. */
export interface OpenAiProtocolOptions {
  /** Values for omitted fields, in place of OpenAI's own defaults. */
  readonly defaults?: DefaultOverrides
  /** The creation date of every model, in milliseconds since the epoch; default 0. */
  readonly started?: number
  /** Whether answers to chats show the prompt where a request does not say; default: they do not. */
  readonly isVerbose?: () => boolean
}

const streams = ['application/json', 'text/event-stream']

/** Under `/v1` and, where llama-server has them without it and nothing else is there, without. */
const both = (route: Route<OpenAiContext>): readonly Route<OpenAiContext>[] => [
  route,
  { ...route, path: route.path.slice('/v1'.length), summary: `The same as ${route.path}` },
]

const routes: readonly Route<OpenAiContext>[] = [
  {
    method: 'get',
    path: '/v1/models',
    access: 'user',
    summary: 'The models that are served',
    handle: listModels,
  },
  {
    method: 'get',
    path: '/v1/models/*id',
    access: 'user',
    summary: 'One model',
    handle: showModel,
  },
  ...both(
    route({
      method: 'post',
      path: '/v1/chat/completions',
      access: 'user',
      summary: 'Answer a conversation',
      body: chatSchema,
      answers: streams,
      handle: chatCompletions,
    }),
  ),
  ...both(
    route({
      method: 'post',
      path: '/v1/chat/completions/input_tokens',
      access: 'user',
      summary: 'Count the tokens of a conversation',
      body: chatSchema,
      handle: countChatTokens,
    }),
  ),
  route({
    method: 'post',
    path: '/v1/completions',
    access: 'user',
    summary: 'Continue a text',
    body: completionsSchema,
    answers: streams,
    handle: completions,
  }),
  route({
    method: 'post',
    path: '/v1/fim/completions',
    access: 'user',
    summary: "Fill the gap between a prompt and a suffix, in the format of Mistral's API",
    body: fimSchema,
    answers: streams,
    handle: fimCompletions,
  }),
  ...both(
    route({
      method: 'post',
      path: '/v1/responses',
      access: 'user',
      summary: 'Answer a conversation, in the format of the Responses API',
      body: responsesSchema,
      answers: streams,
      handle: responses,
    }),
  ),
  ...both(
    route({
      method: 'post',
      path: '/v1/responses/input_tokens',
      access: 'user',
      summary: 'Count the tokens of an input',
      body: responsesSchema,
      handle: countResponseTokens,
    }),
  ),
  ...both(
    route({
      method: 'post',
      path: '/v1/rerank',
      access: 'user',
      summary: 'Order documents by how well they fit a query',
      body: rerankSchema,
      handle: rerank,
    }),
  ),
  route({
    method: 'post',
    path: '/v2/rerank',
    access: 'user',
    summary: 'The same as /v1/rerank',
    body: rerankSchema,
    handle: rerank,
  }),
  ...both(
    route({
      method: 'post',
      path: '/v1/reranking',
      access: 'user',
      summary: 'The same as /v1/rerank',
      body: rerankSchema,
      handle: rerank,
    }),
  ),
  ...both(
    route({
      method: 'post',
      path: '/v1/score',
      access: 'user',
      summary: 'Say how well texts fit',
      body: scoreSchema,
      handle: score,
    }),
  ),
  route({
    method: 'post',
    path: '/v1/embeddings',
    access: 'user',
    summary: 'Embed texts',
    body: embeddingsSchema,
    handle: embeddings,
  }),
  ...streamRoutes,
]

/** OpenAI's API: chats, responses, completions, embeddings and models under `/v1`; see `docs/api-openai.md`. */
export function openAiProtocol(options: OpenAiProtocolOptions = {}): KoaProtocol {
  return {
    name: 'openai',
    routes: bindRoutes(routes, {
      overrides: options.defaults ?? {},
      started: Math.floor((options.started ?? 0) / 1000),
      isVerbose: options.isVerbose ?? (() => false),
    }),
    errors: openAiErrors,
    under: ['/v1', '/chat/completions'],
  }
}

/** {@link openAiProtocol} by its name. */
export const openAi = defineProtocol({
  name: 'openai',
  doc: "OpenAI's API under `/v1`.",
  options: defaultsOptions,
  defaults: openAiDefaults,
  create: (options, { defaults, started, log }) =>
    openAiProtocol({
      defaults: overridesFrom(options, defaults),
      started,
      // as llama-server does with --verbose
      isVerbose: () => /^(trace|debug)$/.test(log?.level ?? ''),
    }),
})
