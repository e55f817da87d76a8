import { CllmError, type EngineInfo } from '@cllm/core'
import { z } from 'zod'
import type { ModelStore, PullProgress } from '../../routes/define-protocol.js'
import { boolean, text } from '../../fields/fields.js'
import { expectedField, orUnsupported } from '../../request/refusals.js'
import { jsonLines, Reply, StreamReply } from '../../routes/route.js'
import type { Answer, Call, CallOf } from '../../routes/route.js'
import {
  nameOfOllamaModel,
  type OllamaContext,
  ollamaErrorBody,
  untagged,
  taggedName,
  timeText,
} from './ollama-shared.js'
import { createHash } from 'node:crypto'
import { thinkingInSource } from '../../chat/format/learn-chat-format.js'
import { infoOf, peekInfo, loadedModels } from '../../engines/model-queries.js'
import { modelfileOf, parameterLines } from './modelfile.js'

/** The body of `DELETE /api/delete`. */
export const deleteSchema = z.object({ model: text.optional(), name: text.optional() })

/** The body of `POST /api/pull`. */
export const pullSchema = deleteSchema.extend({
  stream: boolean.optional(),
  insecure: boolean.optional(),
})

/** `POST /api/pull`: fetches a model from the catalog and reports progress. */
export async function pull(call: CallOf<typeof pullSchema>, ollama: OllamaContext) {
  const { stream = true, ...fields } = call.fields
  const lines: PullProgress[] = [{ status: 'pulling manifest' }]
  let say = (progress: PullProgress): unknown => lines.push(progress)
  const onProgress = (progress: PullProgress) => void say(progress)
  const pulling = ensure(ollama.store).pull(nameIn(fields), { signal: call.signal, onProgress })
  if (!stream) {
    await pulling
    return { status: 'success' }
  }
  // it may fail before the stream has begun, which then reports the error
  pulling.catch(() => {})
  return new StreamReply(
    jsonLines,
    async (writer) => {
      say = (progress) => writer.write(`${JSON.stringify(progress)}\n`)
      for (const line of lines) say(line)
      await pulling
      writer.write('{"status":"success"}\n')
    },
    (error, writer) => writer.write(`${JSON.stringify(ollamaErrorBody(error))}\n`),
  )
}

/** `DELETE /api/delete`: deletes a preset, or the file of a fetched model. */
export async function remove(call: CallOf<typeof deleteSchema>, ollama: OllamaContext) {
  const name = nameIn(call.fields)
  const { presets } = call.engines
  const preset = presets?.find(name)
  presets?.remove(name)
  if (preset === undefined || preset.from === name) await ensure(ollama.store).remove(name)
  return new Reply('')
}

function nameIn({ model, name }: z.output<typeof deleteSchema>): string {
  const given = model ?? name ?? ''
  if (given !== '') return untagged(given)
  throw expectedField('model', 'the name of a model, instead got nothing')
}

const ensure = (store: ModelStore | undefined): ModelStore =>
  orUnsupported(store, 'This server has no catalog of models')

/** The body of `POST /api/push`. */
export const pushSchema = pullSchema.extend({
  username: text.optional(),
  password: text.optional(),
})

/**
 * `POST /api/push`: answers that this server cannot push models; in a stream as its last line, like Ollama's
 * errors.
 */
export async function push(call: CallOf<typeof pushSchema>): Promise<Answer> {
  const { model, name = '', stream } = call.fields
  nameOfOllamaModel(call.engines, model ?? name)
  const message = 'This server pushes models nowhere: share the GGUF file or the Modelfile instead'
  const error = new CllmError('unsupported', message, { details: { field: 'model' } })
  if (stream === false) throw error
  return new StreamReply(jsonLines, (writer) => {
    writer.write('{"status":"retrieving manifest"}\n')
    writer.write(`${JSON.stringify(ollamaErrorBody(error))}\n`)
  })
}

/** `GET /api/version`. */
export const version = (_: Call, ollama: OllamaContext): Answer => ({ version: ollama.version })

/** `GET /api/tags`: the models that are served. */
export async function tags(call: Call, ollama: OllamaContext): Promise<Answer> {
  return {
    models: await Promise.all([
      ...call.engines.list().map((id) => describe(call, id, ollama)),
      ...(call.engines.adapted?.() ?? [])
        .filter(({ adapter }) => adapter !== undefined)
        .map(({ name }) => describe(call, name, ollama)),
      ...(call.engines.presets?.list() ?? [])
        // a preset of an uploaded file has its model's name, which is listed already
        .filter(({ name, from }) => name !== from)
        .map(({ name, from }) => describe(call, from, ollama, name)),
    ]),
  }
}

/** `GET /api/ps`: the models in memory. A model kept forever is shown to expire in a year. */
export async function ps(call: Call, ollama: OllamaContext): Promise<Answer> {
  const { engines: directory } = call
  const models = loadedModels(directory).map(async (id) => {
    const { model, limits, capabilities } = await infoOf(directory, id)
    const year = call.clock.wall() + 365 * 24 * 3_600_000
    return {
      ...(await describe(call, id, ollama)),
      expires_at: timeText(directory.status(id).expiresAt ?? year),
      size_vram: capabilities.gpu === false ? 0 : model.sizeBytes,
      context_length: limits.contextSize,
    }
  })
  return { models: await Promise.all(models) }
}

/** The list entry of a model, or of a preset of it with the name `name`. */
async function describe({ engines }: Call, id: string, { started }: OllamaContext, name = id) {
  const info = await peekInfo(engines, id)
  return {
    name: taggedName(name),
    model: taggedName(name),
    modified_at: timeText(started),
    size: info?.model.sizeBytes ?? 0,
    // the name's digest, as reading the whole file would take too long
    digest: createHash('sha256').update(name).digest('hex'),
    details: detailsOf(info?.model),
  }
}

/** The details of a model; of one that was never in memory they are mostly empty. */
const detailsOf = (model: EngineInfo['model'] | undefined) => ({
  parent_model: '',
  format: 'gguf',
  family: model?.architecture ?? '',
  families: model === undefined ? null : [model.architecture],
  parameter_size: model === undefined ? '' : parameterSize(model.parameters),
  quantization_level: model?.quantization ?? '',
})

function parameterSize(count: number): string {
  const isLarge = count >= 1e9
  return `${(count / (isLarge ? 1e9 : 1e6)).toFixed(1)}${isLarge ? 'B' : 'M'}`
}

/** The body of `POST /api/show`. */
export const showSchema = deleteSchema.extend({ verbose: boolean.optional() })

/** `POST /api/show`: describes a model; one that was never in memory, with few details. */
export async function show(call: CallOf<typeof showSchema>, ollama: OllamaContext) {
  const { fields, engines: directory } = call
  const asked = fields.model ?? fields.name ?? ''
  const preset = directory.presets?.find(asked)
  const name = nameOfOllamaModel(directory, preset?.from ?? asked)
  const info = await peekInfo(directory, name)
  const template = info?.model.details?.chatTemplate ?? ''
  const thinks = thinkingInSource(template) !== undefined
  const isEmbedding =
    info?.capabilities.generates === false || /bert|embed/i.test(info?.model.architecture ?? '')
  return {
    license: '',
    modelfile: modelfileOf(asked, preset),
    parameters: parameterLines(preset)
      .map(([key, value]) => `${key.padEnd(30)} ${JSON.stringify(value)}`)
      .join('\n'),
    template,
    ...(preset?.system === undefined ? {} : { system: preset.system }),
    details: detailsOf(info?.model),
    model_info: info === undefined ? {} : shapeOf(info),
    capabilities: isEmbedding
      ? ['embedding']
      : [
          'completion',
          'tools',
          ...(thinks ? ['thinking'] : []),
          ...(info?.model.images === true ? ['vision'] : []),
          ...(info?.model.audio === true ? ['audio'] : []),
          ...(info?.infill === undefined ? [] : ['insert']),
        ],
    modified_at: timeText(ollama.started),
  }
}

function shapeOf({ model }: EngineInfo) {
  const { architecture, parameters, trainingContext, details = {} } = model
  return {
    'general.architecture': architecture,
    'general.parameter_count': parameters,
    [`${architecture}.context_length`]: trainingContext,
    [`${architecture}.embedding_length`]: details['hiddenSize'] ?? null,
    [`${architecture}.block_count`]: details['layers'] ?? null,
    [`${architecture}.attention.head_count`]: details['attentionHeads'] ?? null,
    [`${architecture}.attention.head_count_kv`]: details['keyValueHeads'] ?? null,
  }
}
