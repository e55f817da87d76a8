import { z } from 'zod'
import type { KoaContext } from '../koa-context.js'
import { parseFields } from '../parse-fields.js'
import { readJsonBody } from '../read-json-body.js'
import type { NativeContext } from './native-context.js'

/** `POST /decode`: the text of tokens. */
export async function decode(ctx: KoaContext, native: NativeContext): Promise<void> {
  const body = await readJsonBody(ctx)
  const client = native.directory.open()
  const { model } = await client.info()
  const { tokens } = parseFields(decodeSchema(model.vocabularySize), body)
  ctx.body = { success: true, data: { text: await client.detokenize(tokens) } }
}

function decodeSchema(vocabularySize: number) {
  const expected = `a token id from 0 to ${vocabularySize - 1}`
  const token = z
    .int(expected)
    .min(0, expected)
    .max(vocabularySize - 1, expected)
  return z.object({ tokens: z.array(token, 'an array of token ids') })
}
