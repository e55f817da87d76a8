import type { EngineClient, Prompt } from '@cllm/core'
import { z } from 'zod'
import type { Answer, CallOf } from '../../routes/route.js'
import { countTokens, embedAll, shortened } from '../../request/embeddings.js'
import { boolean, integer, largest, text, texts } from '../../fields/fields.js'
import { openOllamaModel, sharedFields } from './ollama-shared.js'

const { model, options, keep_alive } = sharedFields

/** The body of `POST /api/embed`. */
export const embedSchema = z.object({
  model,
  options,
  keep_alive,
  input: texts('a string or up to 2048 strings', 0, 2048).optional(),
  truncate: boolean.optional(),
  dimensions: integer(1, largest).optional(),
})

/** `POST /api/embed`. Without an input the model is only loaded. */
export async function embed(call: CallOf<typeof embedSchema>): Promise<Answer> {
  const { clock, fields } = call
  const started = clock.now()
  const client = openOllamaModel(call, fields.model, fields.keep_alive)
  await client.info()
  const loaded = clock.now()
  const { input = [] } = fields
  // a single empty text only loads the model; in a list, even an empty text has a vector at its index
  const texts = input === '' ? [] : typeof input === 'string' ? [input] : input
  const inputs = texts.map((one) =>
    fields.truncate === false ? { text: one } : async () => await fitting(client, one),
  )
  const made = inputs.length === 0 ? [] : await embedAll(client, inputs, call.signal)
  return {
    model: fields.model,
    embeddings: made.map(({ vector }) => shortened(vector, fields.dimensions)),
    total_duration: Math.round((clock.now() - started) * 1e6),
    load_duration: Math.max(1, Math.round((loaded - started) * 1e6)),
    prompt_eval_count: countTokens(made),
  }
}

/** The body of `POST /api/embeddings`. */
export const embeddingsSchema = z.object({ model, options, keep_alive, prompt: text.optional() })

/** `POST /api/embeddings`, the older form for one text. */
export async function embeddings(call: CallOf<typeof embeddingsSchema>): Promise<Answer> {
  const { prompt = '', ...fields } = call.fields
  const client = openOllamaModel(call, fields.model, fields.keep_alive)
  const inputs = prompt === '' ? [] : [await fitting(client, prompt)]
  const made = inputs.length === 0 ? [] : await embedAll(client, inputs, call.signal)
  return { embedding: made[0]?.vector ?? [] }
}

/** A text, or as many of its first tokens as fit. A text with fewer bytes than that fits without a count. */
async function fitting(client: EngineClient, text: string): Promise<Prompt> {
  const { limits } = await client.info()
  const most = limits.embeddingTokens ?? limits.contextSize
  if (Buffer.byteLength(text) < most) return { text }
  return { tokens: (await client.tokenize(text)).slice(0, most) }
}
