import { CllmError } from '@cllm/core'
import { z } from 'zod'
import type { BlobStore } from '../../../engines/model-store.js'
import { boolean, text } from '../../../fields/fields.js'
import { expectedField, unsupported } from '../../../request/refusals.js'
import type { Answer, Call, CallOf } from '../../../routes/call.js'
import { jsonLines, Reply, StreamReply } from '../../../routes/reply.js'
import { nameOfOllamaModel, type OllamaContext, ollamaErrorBody } from '../ollama-context.js'

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
export function blobsOf({ store }: Pick<OllamaContext, 'store'>): BlobStore {
  if (store?.blobs !== undefined) return store.blobs
  throw new CllmError('unsupported', 'This server takes no files')
}

/**
 * The digest of the GGUF among the files of `/api/create`.
 *
 * @throws `unsupported` for other files, `invalid_request` for a wrong digest
 */
export function ggufIn(files: Readonly<Record<string, unknown>>): string {
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
export const pushSchema = z.object({
  model: text.optional(),
  name: text.optional(),
  insecure: boolean.optional(),
  username: text.optional(),
  password: text.optional(),
  stream: boolean.optional(),
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
