import type { ModelStore } from '../../engines/model-store.js'
import { statusElsewhere } from '../../errors/error-body.js'
import { UnknownFields } from '../../fields/parse-fields.js'
import {
  type DefaultOverrides,
  defaultsOptions,
  overridesFrom,
} from '../../request/protocol-defaults.js'
import { defineProtocol } from '../../routes/define-protocol.js'
import type { KoaProtocol } from '../../routes/koa-context.js'
import { bindRoutes, type Route, route } from '../../routes/route.js'
import { chat, chatSchema } from './chat.js'
import { embed, embeddings, embeddingsSchema, embedSchema } from './embed.js'
import { generate, generateSchema } from './generate.js'
import { addBlob, hasBlob, push, pushSchema } from './models/blobs.js'
import { copy, copySchema, create, createSchema } from './models/create.js'
import { ps, show, showSchema, tags, version } from './models/models.js'
import { deleteSchema, pull, pullSchema, remove } from './models/store.js'
import type { OllamaContext } from './ollama-context.js'
import { ollamaDefaults } from './ollama-defaults.js'
import { ollamaErrorBody, ollamaErrorSchema } from './ollama-error.js'

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

const routes: readonly Route<OllamaContext>[] = [
  route({
    method: 'get',
    path: '/',
    access: 'open',
    summary: "Ollama's greeting, unless the native API has this path",
    answers: ['text/plain'],
    handle: () => 'Ollama is running',
  }),
  { method: 'get', path: '/api/version', access: 'user', summary: 'The version', handle: version },
  {
    method: 'get',
    path: '/api/tags',
    access: 'user',
    summary: 'The models that are served',
    handle: tags,
  },
  { method: 'get', path: '/api/ps', access: 'user', summary: 'The models in memory', handle: ps },
  route({
    method: 'post',
    path: '/api/show',
    access: 'user',
    summary: 'One model',
    body: showSchema,
    handle: show,
  }),
  route({
    method: 'post',
    path: '/api/generate',
    access: 'user',
    summary: 'Answer or continue a text',
    body: generateSchema,
    answers: streams,
    handle: generate,
  }),
  route({
    method: 'post',
    path: '/api/chat',
    access: 'user',
    summary: 'Answer a conversation',
    body: chatSchema,
    answers: streams,
    handle: chat,
  }),
  route({
    method: 'post',
    path: '/api/embed',
    access: 'user',
    summary: 'Embed texts',
    body: embedSchema,
    handle: embed,
  }),
  route({
    method: 'post',
    path: '/api/embeddings',
    access: 'user',
    summary: 'Embed one text',
    body: embeddingsSchema,
    handle: embeddings,
  }),
  route({
    method: 'post',
    path: '/api/pull',
    access: 'admin',
    summary: 'Fetch a model',
    body: pullSchema,
    answers: streams,
    handle: pull,
  }),
  route({
    method: 'post',
    path: '/api/create',
    access: 'admin',
    summary: 'Make a preset of a model',
    body: createSchema,
    answers: streams,
    handle: create,
  }),
  route({
    method: 'post',
    path: '/api/copy',
    access: 'admin',
    summary: 'Give a model another name',
    body: copySchema,
    handle: copy,
  }),
  route({
    method: 'get',
    path: '/api/blobs/:digest',
    access: 'admin',
    summary: 'Whether a file was sent, for HEAD as well',
    answers: ['text/plain'],
    handle: hasBlob,
  }),
  route({
    method: 'post',
    path: '/api/blobs/:digest',
    access: 'admin',
    summary: 'Send a file, by its SHA-256',
    answers: ['text/plain'],
    handle: addBlob,
  }),
  route({
    method: 'post',
    path: '/api/push',
    access: 'user',
    summary: 'Is refused: there is nowhere to push to',
    body: pushSchema,
    handle: push,
  }),
  route({
    method: 'delete',
    path: '/api/delete',
    access: 'admin',
    summary: 'Delete a model that was fetched',
    body: deleteSchema,
    handle: remove,
  }),
]

/** Ollama's API under `/api`; see `docs/api-ollama.md`. */
export function ollamaProtocol(options: OllamaProtocolOptions = {}): KoaProtocol {
  return {
    name: 'ollama',
    routes: bindRoutes(routes, {
      version: options.version ?? spokenVersion,
      overrides: options.defaults ?? {},
      unknownOptions: new UnknownFields(),
      started: options.started ?? 0,
      store: options.store,
    }),
    errors: {
      name: 'ollama-error',
      status: statusElsewhere,
      body: ollamaErrorBody,
      schema: ollamaErrorSchema,
    },
    under: ['/api'],
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
