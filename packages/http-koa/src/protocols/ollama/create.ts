import { CllmError } from '@cllm/core'
import { z } from 'zod'
import { boolean, list, object, text, parseFields } from '../../fields/fields.js'
import { unsupported, expectedField, orUnsupported } from '../../request/refusals.js'
import { jsonLines, Reply, StreamReply } from '../../routes/route.js'
import type { Answer, Call, CallOf } from '../../routes/route.js'
import { nameOfOllamaModel, presetsOf, untagged, optionsSchema } from './ollama-shared.js'
import type { OllamaContext } from './ollama-shared.js'
import { parametersOf, readModelfile, refuseTemplate, withParameters } from './modelfile.js'
import type { Modelfile } from './modelfile.js'
import type { BlobStore } from '../../routes/define-protocol.js'

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
  files: z.record(z.string(), text, 'an object').optional(),
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

/** `POST /api/create`: makes a preset of a served model, or of a GGUF file that the client has sent. */
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
  if (fields.quantize !== undefined) {
    await ensureQuantized(call, from, fields.quantize).catch(async (error: unknown) => {
      // otherwise a model that was not created would keep the name
      if (digest !== undefined) await ollama.store?.remove(name, { keepsFile: true })
      throw error
    })
  }
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
 * Checks that a model already has the wanted quantization.
 *
 * @throws `unsupported` for others, with a message like Ollama's on what can be quantized, and by which program
 */
async function ensureQuantized(call: Call, from: string, quantize: string): Promise<void> {
  const { quantization: has } = (await call.open(from).client.info()).model
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
  throw unsupported(given[0], 'not supported; a model is made of a served model or of a GGUF file')
}

/** `POST /api/copy`: adds a name for a model. */
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

/** `HEAD /api/blobs/{digest}`: whether a client has sent this file. */
export async function hasBlob(call: Call, ollama: OllamaContext): Promise<Answer> {
  const digest = digestIn(call.params['digest'] ?? '', 'digest')
  if (!(await blobsOf(ollama).has(digest))) {
    throw new CllmError('not_found', `There is no blob sha256:${digest}`)
  }
  return new Reply('')
}

/** `POST /api/blobs/{digest}`: stores a file, whose bytes must have this SHA-256. */
export async function addBlob(call: Call, ollama: OllamaContext): Promise<Answer> {
  const digest = digestIn(call.params['digest'] ?? '', 'digest')
  const blobs = blobsOf(ollama)
  call.body.allowUpload()
  const isKnown = await blobs.has(digest)
  if (!isKnown) await blobs.add(digest, call.body.stream, call.signal)
  return new Reply('', { status: isKnown ? 200 : 201 })
}

/** The store of files that clients send. Throws `unsupported` if there is none. */
const blobsOf = ({ store }: Pick<OllamaContext, 'store'>): BlobStore =>
  orUnsupported(store?.blobs, 'This server takes no files')

/**
 * The digest of the GGUF among the files of `/api/create`.
 *
 * @throws `unsupported` for other files, `invalid_request` for a wrong digest
 */
function ggufIn(files: Readonly<Record<string, string>>): string {
  const names = Object.keys(files)
  if (names.some((name) => /\.(safetensors|bin|pth)$/i.test(name))) {
    const how = "llama.cpp's convert_hf_to_gguf.py makes one of a folder of safetensors"
    throw unsupported('files', `a model is made of a GGUF file; ${how}`)
  }
  const [file, ...others] = Object.entries(files)
  if (file === undefined || others.length > 0) {
    throw unsupported('files', 'a model is made of one GGUF file')
  }
  return digestIn(file[1], `files.${file[0].slice(0, 40)}`)
}

/** The digest without Ollama's prefix. */
function digestIn(given: string, field: string): string {
  const [, digest] = /^(?:sha256[:-])?([0-9a-f]{64})$/i.exec(given) ?? []
  if (digest !== undefined) return digest.toLowerCase()
  throw expectedField(field, `sha256: and 64 hex digits, instead got ${given.slice(0, 80)}`)
}
