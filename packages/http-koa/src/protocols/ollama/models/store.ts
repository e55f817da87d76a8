import { CllmError } from '@cllm/core'
import { z } from 'zod'
import { abortOnClose } from '../../../stream/abort-on-close.js'
import type { KoaContext } from '../../../routes/koa-context.js'
import type { ModelStore, PullProgress } from '../../../engines/model-store.js'
import { boolean, text } from '../../../fields/fields.js'
import { readFields } from '../../../fields/read-fields.js'
import { type OllamaContext, untagged } from '../ollama-context.js'
import { ollamaErrorBody } from '../ollama-error.js'
import { startNdjson } from '../../../stream/start-ndjson.js'
import { expectedField } from '../../../request/expected-field.js'
import { failStream } from '../../../stream/fail-stream.js'

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
export async function pull(ctx: KoaContext, ollama: OllamaContext): Promise<void> {
  const { stream = true, ...fields } = await readFields(ctx, pullSchema, ollama.unknownFields)
  const signal = abortOnClose(ctx)
  const lines: PullProgress[] = [{ status: 'pulling manifest' }]
  let say = (progress: PullProgress): unknown => lines.push(progress)
  const onProgress = (progress: PullProgress) => void say(progress)
  const pulling = ensure(ollama.store).pull(nameIn(fields), { signal, onProgress })
  if (!stream) {
    await pulling
    ctx.body = { status: 'success' }
    return
  }
  const response = startNdjson(ctx)
  say = (progress) => response.write(`${JSON.stringify(progress)}\n`)
  for (const line of lines) say(line)
  try {
    await pulling
    response.end('{"status":"success"}\n')
  } catch (error) {
    failStream(ctx, response, error, (shown) =>
      response.end(`${JSON.stringify(ollamaErrorBody(shown))}\n`),
    )
  }
}

/** `DELETE /api/delete`: deletes the file of a model that was fetched. */
export async function remove(ctx: KoaContext, ollama: OllamaContext): Promise<void> {
  const fields = await readFields(ctx, deleteSchema, ollama.unknownFields)
  const name = nameIn(fields)
  const { presets } = ollama.directory
  const preset = presets?.find(name)
  presets?.remove(name)
  if (preset === undefined || preset.from === name) await ensure(ollama.store).remove(name)
  ctx.status = 200
  ctx.body = ''
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
