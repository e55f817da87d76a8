import { CllmError } from '@cllm/core'
import { z } from 'zod'
import { abortOnClose } from '../stream/abort-on-close.js'
import type { KoaContext } from '../routes/koa-context.js'
import { embedAll } from '../request/embeddings.js'
import { mixedPrompts, readPrompts } from '../fields/mixed-prompts.js'
import { integer } from '../fields/fields.js'
import { readFields } from '../fields/read-fields.js'
import { unsupported } from '../request/unsupported.js'
import type { LlamaServerContext } from './llama-server-context.js'

/** The body of `POST /embedding`. */
export const embeddingSchema = z.object({
  content: mixedPrompts(2048).optional(),
  input: mixedPrompts(2048).optional(),
  model: z.string('a name').optional(),
  embd_normalize: integer(-1, 2).optional(),
})

/** `POST /embedding`: one vector for each input. */
export async function embedding(ctx: KoaContext, llama: LlamaServerContext): Promise<void> {
  const fields = await readFields(ctx, embeddingSchema, llama.unknownFields)
  const client = llama.directory.open(fields.model)
  if ((fields.embd_normalize ?? 2) !== 2) {
    throw unsupported('embd_normalize', 'vectors always have the Euclidean length 1')
  }
  const given = fields.input ?? fields.content
  if (given === undefined) {
    throw new CllmError('invalid_request', 'Missing required field: input', {
      details: { field: 'input' },
    })
  }
  const made = await embedAll(client, await readPrompts(client, given), abortOnClose(ctx))
  ctx.body = made.map(({ vector }, index) => ({ index, embedding: [vector] }))
}
