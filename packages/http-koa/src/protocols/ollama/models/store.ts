import { CllmError } from '@cllm/core'
import { z } from 'zod'
import type { BlobStore, ModelStore, PullProgress } from '../../../routes/define-protocol.js'
import { boolean, text, type JsonObject } from '../../../fields/fields.js'
import { expectedField, orUnsupported, unsupported } from '../../../request/refusals.js'
import type { Answer, Call, CallOf } from '../../../routes/route.js'
import { jsonLines, Reply, StreamReply } from '../../../routes/route.js'
import type { OllamaContext } from '../ollama-context.js'
import { nameOfOllamaModel, ollamaErrorBody, untagged } from '../ollama-context.js'

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
  const { signal } = call
  const lines: PullProgress[] = [{ status: 'pulling manifest' }]
  let say = (progress: PullProgress): unknown => lines.push(progress)
  const onProgress = (progress: PullProgress) => void say(progress)
  const pulling = ensure(ollama.store).pull(nameIn(fields), { signal, onProgress })
  if (!stream) {
    await pulling
    return { status: 'success' }
  }
  // it may fail before the stream has begun, which tells it
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

/** `DELETE /api/delete`: deletes the file of a model that was fetched. */
export async function remove(call: CallOf<typeof deleteSchema>, ollama: OllamaContext) {
  const { fields } = call
  const name = nameIn(fields)
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

/** `HEAD /api/blobs/{digest}`: whether a client has sent this file. */
export async function hasBlob(call: Call, ollama: OllamaContext): Promise<Answer> {
  const digest = digestOf(call.params['digest'] ?? '', 'digest')
  if (!(await blobsOf(ollama).has(digest))) {
    throw new CllmError('not_found', `There is no blob sha256:${digest}`)
  }
  return new Reply('')
}

/** `POST /api/blobs/{digest}`: takes a file, whose bytes must have this SHA-256. */
export async function addBlob(call: Call, ollama: OllamaContext): Promise<Answer> {
  const digest = digestOf(call.params['digest'] ?? '', 'digest')
  const blobs = blobsOf(ollama)
  call.body.allowUpload()
  const isKnown = await blobs.has(digest)
  if (!isKnown) await blobs.add(digest, call.body.stream, call.signal)
  return new Reply('', { status: isKnown ? 200 : 201 })
}

/** The store of files that clients send. Throws `unsupported` where there is none. */
export const blobsOf = ({ store }: Pick<OllamaContext, 'store'>): BlobStore =>
  orUnsupported(store?.blobs, 'This server takes no files')

/**
 * The digest of the GGUF among the files of `/api/create`.
 *
 * @throws `unsupported` for other files, `invalid_request` for a wrong digest
 */
export function ggufIn(files: JsonObject): string {
  const names = Object.keys(files)
  if (names.some((name) => /\.(safetensors|bin|pth)$/i.test(name))) {
    const how = "llama.cpp's convert_hf_to_gguf.py makes one of a folder of safetensors"
    throw unsupported('files', `a model is made of a GGUF file; ${how}`)
  }
  const [file, ...others] = Object.entries(files)
  if (file === undefined || others.length > 0) {
    throw unsupported('files', 'a model is made of one GGUF file')
  }
  return digestOf(String(file[1]), `files.${file[0].slice(0, 40)}`)
}

/** The digest without what Ollama writes in front. */
function digestOf(given: string, field: string): string {
  const [, digest] = /^(?:sha256[:-])?([0-9a-f]{64})$/i.exec(given) ?? []
  if (digest !== undefined) return digest.toLowerCase()
  throw expectedField(field, `sha256: and 64 hex digits, instead got ${given.slice(0, 80)}`)
}

/** The body of `POST /api/push`. */
export const pushSchema = pullSchema.extend({
  username: text.optional(),
  password: text.optional(),
})

/**
 * `POST /api/push`: there is nowhere to push to, and that is said; in a stream as its last line, as
 * Ollama does it.
 */
export async function push(call: CallOf<typeof pushSchema>): Promise<Answer> {
  const { fields } = call
  const asked = fields.model ?? fields.name ?? ''
  nameOfOllamaModel(call.engines, asked)
  const message = 'This server pushes models nowhere: share the GGUF file or the Modelfile instead'
  const error = new CllmError('unsupported', message, { details: { field: 'model' } })
  if (fields.stream === false) throw error
  return new StreamReply(jsonLines, (writer) => {
    writer.write('{"status":"retrieving manifest"}\n')
    writer.write(`${JSON.stringify(ollamaErrorBody(error))}\n`)
  })
}
