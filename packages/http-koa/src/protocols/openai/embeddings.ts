import { requestId } from '@cllm/host'
import { z } from 'zod'
import type { Answer, CallOf } from '../../routes/route.js'
import { countTokens, embedAll, shortened } from '../../request/embeddings.js'
import { mixedPrompts, readPrompts } from '../../fields/mixed-prompts.js'
import { integer, largest } from '../../fields/fields.js'

/** The body of `POST /v1/embeddings`. */
export const embeddingsSchema = z.object({
  input: mixedPrompts(2048),
  model: z.string('a name').optional(),
  encoding_format: z.enum(['float', 'base64'], 'float or base64').optional(),
  dimensions: integer(1, largest).optional(),
  user: z.string('a string').optional(),
})

/** `POST /v1/embeddings`. */
export async function embeddings(call: CallOf<typeof embeddingsSchema>): Promise<Answer> {
  const { fields } = call
  const { model, client } = call.open(fields.model)
  const made = await embedAll(client, await readPrompts(client, fields.input), call.signal)
  const isBase64 = fields.encoding_format === 'base64'
  const tokens = countTokens(made)
  return {
    // OpenAI has none; Mistral's clients want one
    id: `embd-${requestId(call.random)}`,
    object: 'list',
    data: made.map((one, index) => {
      const vector = shortened(one.vector, fields.dimensions)
      return { object: 'embedding', index, embedding: isBase64 ? toBase64(vector) : vector }
    }),
    model,
    usage: { prompt_tokens: tokens, total_tokens: tokens },
  }
}

/** 32-bit floats, the lowest byte first, on machines of any byte order. */
function toBase64(vector: readonly number[]): string {
  const bytes = Buffer.alloc(vector.length * 4)
  for (const [index, value] of vector.entries()) bytes.writeFloatLE(value, index * 4)
  return bytes.toString('base64')
}
