import type { EngineDirectory } from '@cllm/core'
import { statusElsewhere } from '../../errors/error-body.js'
import type { KoaProtocol, KoaRouter } from '../../routes/koa-context.js'
import type { ModelStore } from '../../engines/model-store.js'
import { UnknownFields } from '../../fields/unknown-fields.js'
import { defineProtocol } from '../../routes/define-protocol.js'
import type { HandledRoute } from '../../routes/api-route.js'
import { mountRoutes } from '../../routes/mount-routes.js'
import {
  type DefaultOverrides,
  defaultsOptions,
  overridesFrom,
} from '../../request/protocol-defaults.js'
import { addBlob, hasBlob, push, pushSchema } from './models/blobs.js'
import { copy, copySchema, create, createSchema } from './models/create.js'
import { ollamaDefaults } from './ollama-defaults.js'
import { chat, chatSchema } from './chat.js'
import { embed, embeddings, embeddingsSchema, embedSchema } from './embed.js'
import { generate, generateSchema } from './generate.js'
import { ps, show, showSchema, tags, version } from './models/models.js'
import type { OllamaContext } from './ollama-context.js'
import { ollamaErrorBody, ollamaErrorSchema } from './ollama-error.js'
import { deleteSchema, pull, pullSchema, remove } from './models/store.js'

/** Settings of {@link ollamaProtocol}. */
export interface OllamaProtocolOptions {
  /** Values for omitted fields, in place of Ollama's own defaults. */
  readonly defaults?: DefaultOverrides
  /** Shown by `/api/version`; default: the version of Ollama whose API is spoken. */
  readonly version?: string
  /** The modification date of every model, in milliseconds since the epoch; default 0. */
  readonly started?: number
  /** The store behind `/api/pull` and `/api/delete`. Default: none, and they are refused. */
  readonly store?: ModelStore
}

/** The version of Ollama whose API is spoken: clients refuse older ones. */
const spokenVersion = '0.14.0'

const streams = ['application/x-ndjson', 'application/json']

const routes: readonly HandledRoute<OllamaContext>[] = [
  {
    method: 'get',
    path: '/',
    summary: "Ollama's greeting, unless the native API has this path",
    answers: ['text/plain'],
    handle: (ctx) => void (ctx.body = 'Ollama is running'),
  },
  { method: 'get', path: '/api/version', summary: 'The version', handle: version },
  { method: 'get', path: '/api/tags', summary: 'The models that are served', handle: tags },
  { method: 'get', path: '/api/ps', summary: 'The models in memory', handle: ps },
  { method: 'post', path: '/api/show', summary: 'One model', body: showSchema, handle: show },
  {
    method: 'post',
    path: '/api/generate',
    summary: 'Answer or continue a text',
    body: generateSchema,
    answers: streams,
    handle: generate,
  },
  {
    method: 'post',
    path: '/api/chat',
    summary: 'Answer a conversation',
    body: chatSchema,
    answers: streams,
    handle: chat,
  },
  {
    method: 'post',
    path: '/api/embed',
    summary: 'Embed texts',
    body: embedSchema,
    handle: embed,
  },
  {
    method: 'post',
    path: '/api/embeddings',
    summary: 'Embed one text',
    body: embeddingsSchema,
    handle: embeddings,
  },
  {
    method: 'post',
    path: '/api/pull',
    summary: 'Fetch a model',
    body: pullSchema,
    answers: streams,
    handle: pull,
  },
  {
    method: 'post',
    path: '/api/create',
    summary: 'Make a preset of a model',
    body: createSchema,
    answers: streams,
    handle: create,
  },
  {
    method: 'post',
    path: '/api/copy',
    summary: 'Give a model another name',
    body: copySchema,
    handle: copy,
  },
  {
    method: 'get',
    path: '/api/blobs/:digest',
    summary: 'Whether a file was sent, for HEAD as well',
    answers: ['text/plain'],
    handle: hasBlob,
  },
  {
    method: 'post',
    path: '/api/blobs/:digest',
    summary: 'Send a file, by its SHA-256',
    answers: ['text/plain'],
    handle: addBlob,
  },
  {
    method: 'post',
    path: '/api/push',
    summary: 'Is refused: there is nowhere to push to',
    body: pushSchema,
    handle: push,
  },
  {
    method: 'delete',
    path: '/api/delete',
    summary: 'Delete a model that was fetched',
    body: deleteSchema,
    handle: remove,
  },
]

/** Ollama's API under `/api`; see `docs/api-ollama.md`. */
export function ollamaProtocol(options: OllamaProtocolOptions = {}): KoaProtocol {
  return {
    name: 'ollama',
    routes,
    errors: {
      covers: (path) => /^\/api(\/|$)/.test(path),
      status: statusElsewhere,
      body: ollamaErrorBody,
      schema: ollamaErrorSchema,
    },
    mount(router: KoaRouter, directory: EngineDirectory) {
      mountRoutes(router, routes, {
        directory,
        version: options.version ?? spokenVersion,
        overrides: options.defaults ?? {},
        unknownFields: new UnknownFields(),
        unknownOptions: new UnknownFields(),
        started: options.started ?? 0,
        store: options.store,
      })
    },
  }
}

/** {@link ollamaProtocol} by its name. */
export const ollama = defineProtocol({
  name: 'ollama',
  doc: "Ollama's API under `/api`.",
  options: defaultsOptions,
  defaults: ollamaDefaults,
  create: (options, { defaults, started, store }) =>
    ollamaProtocol({
      defaults: overridesFrom(options, defaults),
      started,
      ...(store === undefined ? {} : { store }),
    }),
})
