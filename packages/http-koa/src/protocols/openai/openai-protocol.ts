import type { EngineDirectory } from '@cllm/core'
import { statusElsewhere } from '../../errors/error-body.js'
import type { KoaProtocol, KoaRouter } from '../../routes/koa-context.js'
import { UnknownFields } from '../../fields/unknown-fields.js'
import { defineProtocol } from '../../routes/define-protocol.js'
import type { HandledRoute } from '../../routes/api-route.js'
import { mountRoutes } from '../../routes/mount-routes.js'
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
import { openAiErrorBody, openAiErrorSchema } from './openai-error.js'
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
const both = (route: HandledRoute<OpenAiContext>): readonly HandledRoute<OpenAiContext>[] => [
  route,
  { ...route, path: route.path.slice('/v1'.length), summary: `The same as ${route.path}` },
]

const routes: readonly HandledRoute<OpenAiContext>[] = [
  {
    method: 'get',
    path: '/v1/models',
    summary: 'The models that are served',
    handle: listModels,
  },
  {
    method: 'get',
    path: '/v1/models/*id',
    summary: 'One model',
    handle: showModel,
  },
  ...both({
    method: 'post',
    path: '/v1/chat/completions',
    summary: 'Answer a conversation',
    body: chatSchema,
    answers: streams,
    handle: chatCompletions,
  }),
  ...both({
    method: 'post',
    path: '/v1/chat/completions/input_tokens',
    summary: 'Count the tokens of a conversation',
    body: chatSchema,
    handle: countChatTokens,
  }),
  {
    method: 'post',
    path: '/v1/completions',
    summary: 'Continue a text',
    body: completionsSchema,
    answers: streams,
    handle: completions,
  },
  {
    method: 'post',
    path: '/v1/fim/completions',
    summary: "Fill the gap between a prompt and a suffix, in the format of Mistral's API",
    body: fimSchema,
    answers: streams,
    handle: fimCompletions,
  },
  ...both({
    method: 'post',
    path: '/v1/responses',
    summary: 'Answer a conversation, in the format of the Responses API',
    body: responsesSchema,
    answers: streams,
    handle: responses,
  }),
  ...both({
    method: 'post',
    path: '/v1/responses/input_tokens',
    summary: 'Count the tokens of an input',
    body: responsesSchema,
    handle: countResponseTokens,
  }),
  ...both({
    method: 'post',
    path: '/v1/rerank',
    summary: 'Order documents by how well they fit a query',
    body: rerankSchema,
    handle: rerank,
  }),
  {
    method: 'post',
    path: '/v2/rerank',
    summary: 'The same as /v1/rerank',
    body: rerankSchema,
    handle: rerank,
  },
  ...both({
    method: 'post',
    path: '/v1/reranking',
    summary: 'The same as /v1/rerank',
    body: rerankSchema,
    handle: rerank,
  }),
  ...both({
    method: 'post',
    path: '/v1/score',
    summary: 'Say how well texts fit',
    body: scoreSchema,
    handle: score,
  }),
  {
    method: 'post',
    path: '/v1/embeddings',
    summary: 'Embed texts',
    body: embeddingsSchema,
    handle: embeddings,
  },
  ...streamRoutes,
]

/** OpenAI's API: chats, responses, completions, embeddings and models under `/v1`; see `docs/api-openai.md`. */
export function openAiProtocol(options: OpenAiProtocolOptions = {}): KoaProtocol {
  return {
    name: 'openai',
    routes,
    errors: {
      covers: (path) =>
        /^\/v1(\/|$)|^\/(chat\/completions|responses|(v2\/)?rerank|reranking|score)(\/|$)/.test(
          path,
        ),
      status: statusElsewhere,
      body: openAiErrorBody,
      schema: openAiErrorSchema,
    },
    mount(router: KoaRouter, directory: EngineDirectory) {
      mountRoutes(router, routes, {
        directory,
        overrides: options.defaults ?? {},
        unknownFields: new UnknownFields(),
        started: Math.floor((options.started ?? 0) / 1000),
        isVerbose: options.isVerbose ?? (() => false),
      })
    },
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
