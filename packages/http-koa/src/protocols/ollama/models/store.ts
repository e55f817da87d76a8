import { CllmError } from '@cllm/core'
import { z } from 'zod'
import type { ModelStore, PullProgress } from '../../../engines/model-store.js'
import { boolean, text } from '../../../fields/fields.js'
import { expectedField } from '../../../request/refusals.js'
import type { CallOf } from '../../../routes/call.js'
import { jsonLines, Reply, StreamReply } from '../../../routes/reply.js'
import { type OllamaContext, ollamaErrorBody, untagged } from '../ollama-context.js'

/** The body of `POST /api/pull`. */
export const pullSchema = z.object({
  model: text.optional(),
  name: text.optional(),
  stream: boolean.optional(),
  insecure: boolean.optional(),
})

/** The body of `DELETE /api/delete`. */
export const deleteSchema = z.object({ model: text.optional(), name: text.optional() })

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

function ensure(store: ModelStore | undefined): ModelStore {
  if (store !== undefined) return store
  throw new CllmError('unsupported', 'This server has no catalog of models')
}
