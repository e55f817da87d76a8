import { z } from 'zod'
import { name, text, tokenIds } from '../../fields/fields.js'
import type { Answer, CallOf } from '../../routes/call.js'

/** The body of `POST /encode`. */
export const encodeSchema = z.object({ text, model: name.optional() })

/** `POST /encode`: the tokens of a text, as a prompt has them. */
export async function encode(call: CallOf<typeof encodeSchema>): Promise<Answer> {
  const { fields, signal } = call
  const tokens = await call.open(fields.model).client.tokenize(fields.text, { signal })
  return { success: true, data: { tokens, length: tokens.length } }
}

/** The body of `POST /decode`. */
export const decodeSchema = z.object({ tokens: tokenIds, model: name.optional() })

/** `POST /decode`: the text of tokens. */
export async function decode(call: CallOf<typeof decodeSchema>): Promise<Answer> {
  const { tokens, model } = call.fields
  const text = await call.open(model).client.detokenize(tokens)
  return { success: true, data: { text } }
}
