import type { Embedding } from '@cllm/core'
import { z } from 'zod'
import { integer } from '../../fields/fields.js'
import { mixedPrompts, readPrompts } from '../../fields/mixed-prompts.js'
import { embedAll, isUnpooled } from '../../request/embeddings.js'
import { missingField, unsupported } from '../../request/refusals.js'
import type { Answer, CallOf } from '../../routes/call.js'

/** The body of `POST /embedding`. */
export const embeddingSchema = z.object({
  content: mixedPrompts(2048).optional(),
  input: mixedPrompts(2048).optional(),
  model: z.string('a name').optional(),
  embd_normalize: integer(-1, 2).optional(),
})

/** `POST /embedding`: one vector for each input. */
export async function embedding(call: CallOf<typeof embeddingSchema>): Promise<Answer> {
  const { fields } = call
  const client = call.open(fields.model).client
  if ((fields.embd_normalize ?? 2) !== 2 && !(await isUnpooled(client))) {
    throw unsupported('embd_normalize', 'vectors always have the Euclidean length 1')
  }
  const given = fields.input ?? fields.content
  if (given === undefined) {
    throw missingField('input')
  }
  const eachToken = await isUnpooled(client)
  const prompts = await readPrompts(client, given)
  const made = await embedAll(client, prompts, call.signal, { eachToken })
  return made.map((one, index) => ({
    index,
    embedding: eachToken ? rowsOf(one) : [one.vector],
  }))
}

/** The vectors of an input's tokens. */
function rowsOf({ vector, promptTokens }: Embedding): number[][] {
  const size = vector.length / promptTokens
  return Array.from({ length: promptTokens }, (_, row) =>
    vector.slice(row * size, (row + 1) * size),
  )
}
