import { createRequire } from 'node:module'
import { defaultMaxTokens, defined, defaultEngineOptions } from '@cllm/core'
import { bindRoutes, exact, get, post, wholeOrEvents } from '../../routes/route.js'
import type { Answer, Call, CallOf, Route } from '../../routes/route.js'
import type { KoaProtocol } from '../../routes/koa-context.js'
import { defineProtocol, MAX_QUEUED_REQUESTS } from '../../routes/define-protocol.js'
import type { DefaultOverrides, ProtocolDefaults } from '../../request/build-request.js'
import { defaultsOptions, overridesFrom, withOverrides } from '../../request/protocol-defaults.js'
import { benchmark, benchmarkSchema } from './benchmark.js'
import { generateSchema, generate, generateStream, type NativeContext } from './generate.js'
import { health, healthQuery, live, ready } from './health.js'
import { modelQuery, infoOf, type ModelQuery } from '../../engines/model-queries.js'
import { requestReport } from './request-report.js'
import { z } from 'zod'
import { name, text, tokenIds, inSnakeCase } from '../../fields/fields.js'

/** The body of `POST /encode`. */
const encodeSchema = z.object({ text, model: name.optional() })

/** `POST /encode`: the tokens of a text, as in a prompt. */
async function encode(call: CallOf<typeof encodeSchema>): Promise<Answer> {
  const { fields, signal } = call
  const tokens = await call.open(fields.model).client.tokenize(fields.text, { signal })
  return { success: true, data: { tokens, length: tokens.length } }
}

/** The body of `POST /decode`. */
const decodeSchema = z.object({ tokens: tokenIds, model: name.optional() })

/** `POST /decode`: the text of tokens. */
async function decode(call: CallOf<typeof decodeSchema>): Promise<Answer> {
  const { tokens, model } = call.fields
  const text = await call.open(model).client.detokenize(tokens)
  return { success: true, data: { text } }
}

/** The native API's documented defaults; other fields have the engine's. */
export const nativeDefaults: ProtocolDefaults = Object.freeze({
  maxTokens: defaultMaxTokens,
  sampling: Object.freeze({ temperature: 0.7, topP: 0.9 }),
})

/** Settings of {@link nativeProtocol}. */
export interface NativeProtocolOptions {
  /** The version in `GET /`; default: the version of this package. */
  readonly version?: string
  /** Values for omitted fields, in place of {@link nativeDefaults}. */
  readonly defaults?: DefaultOverrides
  /** The engine's limit of waiting requests, for `GET /health?level=full`; default: the default of `EngineOptions`. */
  readonly maxQueuedRequests?: number
}

const { version: packageVersion } = createRequire(import.meta.url)('../../../package.json') as {
  readonly version: string
}

const routes: readonly Route<NativeContext>[] = [
  get('/', 'open', 'This overview', root),
  get('/health', 'open', 'Health: ?level=basic, detailed or full', health, {
    query: healthQuery,
    isQuiet: true,
  }),
  post('/generate', 'user', 'Generate text', generate, {
    ...exact(generateSchema),
    answers: wholeOrEvents,
  }),
  post(
    '/generate_stream',
    'user',
    'Generate text, streamed as server-sent events',
    generateStream,
    {
      ...exact(generateSchema),
      answers: ['text/event-stream'],
    },
  ),
  post('/encode', 'user', 'Tokenize a text', encode, exact(encodeSchema)),
  post('/decode', 'user', 'Detokenize tokens', decode, exact(decodeSchema)),
  get('/model/info', 'user', 'The model and its shape', modelInfo, { query: modelQuery }),
  post(
    '/benchmark',
    'admin',
    'Run concurrent generations and measure their speed',
    benchmark,
    exact(benchmarkSchema),
  ),
  get('/requests/:id', 'user', 'The history of a request', requestReport),
  get('/health/live', 'open', 'Liveness probe', live, { isQuiet: true, isAlways: true }),
  get('/health/ready', 'open', 'Readiness probe', ready, { isQuiet: true }),
]

/** `GET /`: the server's name, version and routes. */
function root(_call: Call, native: NativeContext): Answer {
  const endpoints = native.routes.map(({ method, path, summary }) => ({
    method: method.toUpperCase(),
    path,
    description: summary,
  }))
  const data = { name: 'cLLM Server', version: native.version, endpoints }
  return { success: true, data, ollama: 'Ollama is running' }
}

/**
 * The API of the original cLLM server with the same JSON, served by the directory's default engine; see
 * `docs/api.md`.
 */
export function nativeProtocol(options: NativeProtocolOptions = {}): KoaProtocol {
  return {
    name: 'native',
    routes: bindRoutes(routes, {
      version: options.version ?? packageVersion,
      defaults: withOverrides(nativeDefaults, options.defaults),
      maxQueuedRequests: options.maxQueuedRequests ?? defaultEngineOptions.maxQueuedRequests,
      routes,
      waits: { count: 0, ms: 0 },
    }),
  }
}

/** {@link nativeProtocol} as a definition. */
export const native = defineProtocol({
  name: 'native',
  doc: 'The API of the original cLLM server, with health checks.',
  options: defaultsOptions,
  defaults: { '/generate': nativeDefaults },
  create: (options, services) =>
    nativeProtocol({
      defaults: overridesFrom(options, services),
      ...defined({ maxQueuedRequests: services.get(MAX_QUEUED_REQUESTS) }),
    }),
})

const families = [
  'qwen',
  'deepseek',
  'llama',
  'mistral',
  'phi',
  'gemma',
  'yi',
  'baichuan',
  'chatglm',
  'internlm',
]

/** `GET /model/info`. A detail that the backend does not report is null. */
async function modelInfo(call: Call<unknown, ModelQuery>): Promise<Answer> {
  const { model, limits } = await infoOf(call.engines, call.query.model)
  const detail = (key: string) => model.details?.[key] ?? null
  const data = {
    model_path: model.path ?? null,
    model_name: model.id,
    model_family: modelFamily(model.id, model.architecture),
    model_type: model.architecture,
    vocab_size: model.vocabularySize,
    tokenizer_vocab_size: model.vocabularySize,
    hidden_size: detail('hiddenSize'),
    num_layers: detail('layers'),
    num_attention_heads: detail('attentionHeads'),
    num_key_value_heads: detail('keyValueHeads'),
    max_sequence_length: limits.contextSize,
    intermediate_size: detail('feedForwardSize'),
    rope_theta: detail('ropeTheta'),
    rms_norm_eps: detail('rmsNormEpsilon'),
    quantization: {
      enabled: !/^(f16|f32|bf16|)$/i.test(model.quantization),
      type: model.quantization,
    },
    llama_cpp: {
      batch_size: limits.batchSize,
      num_threads: detail('threads'),
      gpu_layers: detail('gpuLayers'),
      use_mmap: detail('mmap'),
      use_mlock: detail('mlock'),
    },
    use_kv_cache: true,
    parameters: model.parameters,
    size_bytes: model.sizeBytes,
    training_context: model.trainingContext,
    slots: limits.slots,
    // the defaults that the model's file or the catalog recommends
    sampling: inSnakeCase(model.sampling ?? {}),
  }
  return { success: true, data }
}

/** The family by the model's name or else its architecture, which may be another family's. */
function modelFamily(id: string, architecture: string): string {
  const has = (text: string) => families.find((family) => text.toLowerCase().includes(family))
  return has(id) ?? has(architecture) ?? 'unknown'
}
