import type { ModelPreset } from '@cllm/core'
import { z } from 'zod'
import { boolean, list, object, text, parseFields } from '../../../fields/fields.js'
import { unsupported } from '../../../request/refusals.js'
import type { Answer, Call, CallOf } from '../../../routes/route.js'
import { jsonLines, Reply, StreamReply } from '../../../routes/route.js'
import { nameOfOllamaModel, type OllamaContext, presetsOf, untagged } from '../ollama-context.js'
import { optionsSchema } from '../ollama-fields.js'
import { type Modelfile, readModelfile } from './modelfile.js'
import { parametersOf, refuseTemplate, withParameters } from './ollama-preset.js'
import { blobsOf, ggufIn } from './store.js'

const messageSchema = z.object({ role: text, content: text }, 'a message')

/** The body of `POST /api/create`. */
export const createSchema = z.object({
  model: text.optional(),
  name: text.optional(),
  from: text.optional(),
  modelfile: text.optional(),
  system: text.optional(),
  template: text.optional(),
  parameters: object.optional(),
  messages: list(messageSchema, 'an array of messages').optional(),
  license: z.unknown().optional(),
  stream: boolean.optional(),
  files: object.optional(),
  adapters: object.optional(),
  quantize: text.optional(),
  path: text.optional(),
})

const parametersSchema = z.object({ parameters: optionsSchema })

/** The body of `POST /api/copy`. */
export const copySchema = z.object({
  source: text.min(1, 'a name'),
  destination: text.min(1, 'a name'),
})

/** `POST /api/create`: a preset of a served model, or of a GGUF file that the client has sent. */
export async function create(call: CallOf<typeof createSchema>, ollama: OllamaContext) {
  const { fields } = call
  refuse(fields)
  const name = untagged(fields.model ?? fields.name ?? '')
  const digest = fields.files === undefined ? undefined : ggufIn(fields.files)
  const file: Modelfile =
    fields.modelfile === undefined
      ? { from: fields.from ?? '', parameters: {}, messages: [] }
      : readModelfile(fields.modelfile)
  refuseTemplate(fields.template ?? file.template)
  const presets = presetsOf(call)
  const base = digest === undefined ? presets.find(file.from) : undefined
  const from =
    digest === undefined ? (base?.from ?? nameOfOllamaModel(call.engines, file.from)) : name
  const given = { ...file.parameters, ...fields.parameters }
  const { parameters } = parseFields(parametersSchema, { parameters: given })
  const words = {
    from,
    name,
    system: fields.system ?? file.system ?? base?.system,
    messages: fields.messages ?? (file.messages.length > 0 ? file.messages : base?.messages) ?? [],
  }
  const { logger } = call
  const preset = withParameters(words, { ...parametersOf(base), ...parameters }, logger)
  presets.check(preset)
  if (digest !== undefined) await blobsOf(ollama).serve(name, digest)
  if (fields.quantize !== undefined) await ensureQuantized(call, from, fields.quantize)
  presets.add(preset)
  if (fields.stream === false) return { status: 'success' }
  const first = fields.files === undefined ? `using existing model ${from}` : 'parsing GGUF'
  return new StreamReply(jsonLines, (writer) => {
    for (const status of [first, 'writing manifest', 'success']) {
      writer.write(`${JSON.stringify({ status })}\n`)
    }
  })
}

/**
 * A model that has the wanted quantization already needs no work; for others it says, as Ollama does, what
 * can be quantized, and with what.
 */
async function ensureQuantized(call: Call, from: string, quantize: string): Promise<void> {
  const info = await call.open(from).client.info()
  const has = info.model.quantization
  if (has.toLowerCase() === quantize.toLowerCase()) return
  const isWhole = /^(b?f16|f32)$/i.test(has)
  throw unsupported(
    'quantize',
    isWhole
      ? `this server does not quantize: llama.cpp's llama-quantize makes ${quantize} of the GGUF file`
      : `quantization is only supported for F16 and F32 models, and ${from} is ${has}`,
  )
}

function refuse({ adapters, path }: z.output<typeof createSchema>): void {
  const given = Object.entries({ adapters, path }).find(([, value]) => value !== undefined)
  if (given === undefined) return
  throw unsupported(given[0], 'models are made of models that are served, or of a GGUF file')
}

/** `POST /api/copy`: another name for a model. */
export async function copy(call: CallOf<typeof copySchema>): Promise<Answer> {
  const { source, destination } = call.fields
  const presets = presetsOf(call)
  const known = presets.find(source)
  const from = known?.from ?? nameOfOllamaModel(call.engines, source)
  const copied = { ...known, from, name: destination }
  presets.check(copied)
  presets.add(copied)
  return new Reply('')
}

/** What a Modelfile of a model would say. */
export function modelfileOf(name: string, model: ModelPreset | undefined): string {
  const quoted = (text: string) => (text.includes('\n') ? `"""${text}"""` : text)
  return [
    `FROM ${model?.from ?? untagged(name)}`,
    ...(model?.system === undefined ? [] : [`SYSTEM ${quoted(model.system)}`]),
    ...Object.entries(parametersOf(model)).flatMap(([key, value]) =>
      (Array.isArray(value) ? (value as unknown[]) : [value]).map(
        (one) => `PARAMETER ${key} ${String(one)}`,
      ),
    ),
  ].join('\n')
}
