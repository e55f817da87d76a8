import type { EngineDirectory } from '@cllm/core'
import { statusElsewhere } from '../error-body.js'
import type { KoaProtocol, KoaRouter } from '../koa-context.js'
import { UnknownFields } from '../native/unknown-fields.js'
import type { HandledRoute } from '../request/api-route.js'
import { mountRoutes } from '../request/mount-routes.js'
import type { DefaultOverrides } from '../request/protocol-defaults.js'
import { chatSchema } from './chat-request.js'
import { chatCompletions } from './chat.js'
import { completionsSchema } from './completions-request.js'
import { completions } from './completions.js'
import { embeddings, embeddingsSchema } from './embeddings.js'
import { listModels, showModel } from './models.js'
import type { OpenAiContext } from './openai-context.js'
import { openAiErrorBody, openAiErrorSchema } from './openai-error.js'
import { responsesSchema } from './responses-request.js'
import { responses } from './responses.js'

/** Settings of {@link openAiProtocol}. */
export interface OpenAiProtocolOptions {
  /** What requests get that do not say, in place of OpenAI's own defaults. */
  readonly defaults?: DefaultOverrides
  /** Milliseconds since the epoch that models are said to be from; default 0. */
  readonly started?: number
}

const streams = ['application/json', 'text/event-stream']

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
  {
    method: 'post',
    path: '/v1/chat/completions',
    summary: 'Answer a conversation',
    body: chatSchema,
    answers: streams,
    handle: chatCompletions,
  },
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
    path: '/v1/responses',
    summary: 'Answer a conversation, in the words of the Responses API',
    body: responsesSchema,
    answers: streams,
    handle: responses,
  },
  {
    method: 'post',
    path: '/v1/embeddings',
    summary: 'Texts to vectors',
    body: embeddingsSchema,
    handle: embeddings,
  },
]

/** OpenAI's API: chats, responses, completions, embeddings and models under `/v1`; see `docs/api-openai.md`. */
export function openAiProtocol(options: OpenAiProtocolOptions = {}): KoaProtocol {
  return {
    name: 'openai',
    routes,
    errors: {
      covers: (path) => /^\/v1(\/|$)/.test(path),
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
      })
    },
  }
}
