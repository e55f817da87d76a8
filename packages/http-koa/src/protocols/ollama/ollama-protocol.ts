import { defined } from '@cllm/core'
import type { z } from 'zod'
import { defineProtocol, MODEL_STORE, STARTED_AT } from '../../routes/define-protocol.js'
import type { ModelStore } from '../../routes/define-protocol.js'
import { errorsElsewhere } from '../../errors/error-body.js'
import { UnknownFields } from '../../fields/fields.js'
import type { DefaultOverrides } from '../../request/build-request.js'
import { defaultsOptions, overridesFrom, withOverrides } from '../../request/protocol-defaults.js'
import type { KoaProtocol } from '../../routes/koa-context.js'
import { bindRoutes, type Route, get, post, del } from '../../routes/route.js'
import { chat, chatSchema, generate, generateSchema } from './generate.js'
import { embed, embeddings, embeddingsSchema, embedSchema } from './embed.js'
import { addBlob, copy, copySchema, create, createSchema, hasBlob } from './create.js'
import * as models from './models.js'
import { ollamaDefaults, ollamaErrorBody, ollamaErrorSchema } from './ollama-shared.js'
import type { OllamaContext } from './ollama-shared.js'

/** Settings of {@link ollamaProtocol}. */
export interface OllamaProtocolOptions {
  /** Values for omitted fields, in place of Ollama's own defaults. */
  readonly defaults?: DefaultOverrides
  /** The version in `/api/version`; default: the version of Ollama whose API this is. */
  readonly version?: string
  /** The modification date of every model, in milliseconds since the epoch; default 0. */
  readonly started?: number
  /** The store behind `/api/pull` and `/api/delete`. Default: none, and they are refused. */
  readonly store?: ModelStore
}

/** The version of Ollama whose API this is; clients refuse older ones. */
const spokenVersion = '0.14.0'

/** Options for a route that answers with one JSON value per line, unless the body's `stream` is false. */
const inLines = <Body extends z.ZodObject>(body: Body) => {
  return { body, answers: ['application/x-ndjson', 'application/json'] }
}
const asText = { answers: ['text/plain'] }
const asNew = { ...asText, statuses: [200, 201] }

const routes: readonly Route<OllamaContext>[] = [
  get('/', 'open', "Ollama's greeting, unless the native API has this path", greet, asText),
  get('/api/version', 'user', 'The version', models.version),
  get('/api/tags', 'user', 'The models that are served', models.tags),
  get('/api/ps', 'user', 'The models in memory', models.ps),
  post('/api/show', 'user', 'One model', models.show, { body: models.showSchema }),
  post('/api/generate', 'user', 'Answer or continue a text', generate, inLines(generateSchema)),
  post('/api/chat', 'user', 'Answer a conversation', chat, inLines(chatSchema)),
  post('/api/embed', 'user', 'Embed texts', embed, { body: embedSchema }),
  post('/api/embeddings', 'user', 'Embed one text', embeddings, { body: embeddingsSchema }),
  post('/api/pull', 'admin', 'Fetch a model', models.pull, inLines(models.pullSchema)),
  post('/api/create', 'admin', 'Make a preset of a model', create, inLines(createSchema)),
  post('/api/copy', 'admin', 'Add a name to a model', copy, { body: copySchema, ...asText }),
  get('/api/blobs/:digest', 'admin', 'Whether a file was sent, for HEAD as well', hasBlob, asText),
  post('/api/blobs/:digest', 'admin', 'Send a file, by its SHA-256', addBlob, asNew),
  post(
    '/api/push',
    'user',
    'Not supported: this server pushes no models',
    models.push,
    inLines(models.pushSchema),
  ),
  del('/api/delete', 'admin', 'Delete a model that was fetched', models.remove, {
    body: models.deleteSchema,
    ...asText,
  }),
]

/** `GET /`: clients recognize Ollama by this text. */
function greet(): string {
  return 'Ollama is running'
}

/** Ollama's API under `/api`; see `docs/api-ollama.md`. */
export function ollamaProtocol(options: OllamaProtocolOptions = {}): KoaProtocol {
  return {
    name: 'ollama',
    routes: bindRoutes(routes, {
      version: options.version ?? spokenVersion,
      defaults: withOverrides(ollamaDefaults, options.defaults),
      unknownOptions: new UnknownFields(),
      started: options.started ?? 0,
      store: options.store,
    }),
    errors: errorsElsewhere('ollama-error', ollamaErrorSchema, ollamaErrorBody),
    under: ['/api'],
  }
}

/** {@link ollamaProtocol} as a definition. */
export const ollama = defineProtocol({
  name: 'ollama',
  doc: "Ollama's API under `/api`.",
  options: defaultsOptions,
  defaults: { '/api/generate': ollamaDefaults, '/api/chat': ollamaDefaults },
  create: (options, services) =>
    ollamaProtocol({
      defaults: overridesFrom(options, services),
      started: services.get(STARTED_AT) ?? 0,
      ...defined({ store: services.get(MODEL_STORE) }),
    }),
})
