import { createHash } from 'node:crypto'
import type { EngineInfo } from '@cllm/core'
import { thinkingInSource } from '../../../chat/format/learn-chat-format.js'
import type { Answer, Call, CallOf } from '../../../routes/route.js'
import { infoOf, peekInfo, loadedModels } from '../../../engines/model-queries.js'
import { boolean } from '../../../fields/fields.js'
import { modelfileOf } from './create.js'
import { parametersOf } from './ollama-preset.js'
import { deleteSchema } from './store.js'
import { nameOfOllamaModel, type OllamaContext, taggedName, timeText } from '../ollama-context.js'

/** `GET /api/version`. */
export function version(_call: Call, ollama: OllamaContext): Answer {
  return { version: ollama.version }
}

/** `GET /api/tags`: the models that are served. */
export async function tags(call: Call, ollama: OllamaContext): Promise<Answer> {
  return {
    models: await Promise.all([
      ...call.engines.list().map((id) => describe(call, id, ollama)),
      ...(call.engines.adapted?.() ?? [])
        .filter(({ adapter }) => adapter !== undefined)
        .map(({ name }) => describe(call, name, ollama)),
      ...(call.engines.presets?.list() ?? []).filter(isAnother).map(async ({ name, from }) => ({
        ...(await describe(call, from, ollama)),
        name: taggedName(name),
        model: taggedName(name),
        digest: digestOf(name),
      })),
    ]),
  }
}

/** A model that is made of a file has that file's name: it is listed once. */
const isAnother = ({ name, from }: { readonly name: string; readonly from: string }): boolean =>
  name !== from

/** `GET /api/ps`: the models in memory. A model kept forever is shown to expire in a year. */
export async function ps(call: Call, ollama: OllamaContext): Promise<Answer> {
  const { engines: directory } = call
  const models = loadedModels(directory).map(async (id) => {
    const { model, limits, capabilities } = await infoOf(directory, id)
    const year = call.clock.now() + 365 * 24 * 3_600_000
    return {
      ...(await describe(call, id, ollama)),
      expires_at: timeText(directory.status(id).expiresAt ?? year),
      size_vram: capabilities.gpu === false ? 0 : model.sizeBytes,
      context_length: limits.contextSize,
    }
  })
  return { models: await Promise.all(models) }
}

async function describe({ engines }: Call, id: string, { started }: OllamaContext) {
  const info = await peekInfo(engines, id)
  return {
    name: taggedName(id),
    model: taggedName(id),
    modified_at: timeText(started),
    size: info?.model.sizeBytes ?? 0,
    // of the name: the file is too large to be read for it
    digest: digestOf(id),
    details: detailsOf(info?.model),
  }
}

const digestOf = (name: string): string => createHash('sha256').update(name).digest('hex')

/** Of a model that was never in memory little is known. */
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

/** `POST /api/show`: what is known of a model; of one that was never in memory little. */
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
    parameters: Object.entries(parametersOf(preset))
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

function shapeOf({
  model: { architecture, parameters, trainingContext, details = {} },
}: EngineInfo) {
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
