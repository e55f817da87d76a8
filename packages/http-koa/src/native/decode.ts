import type { TokenId } from '@cllm/core'
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
  const isToken = (id: unknown) =>
    Number.isInteger(id) && (id as TokenId) >= 0 && (id as TokenId) < vocabularySize
  const tokens = z.custom<TokenId[]>(Array.isArray, 'an array of token ids')
  return z.object({
    // zod would report every one of a million wrong ids, which takes it half a second
    tokens: tokens.superRefine((ids, context) => {
      const index = ids.findIndex((id) => !isToken(id))
      if (index >= 0) context.addIssue({ code: 'custom', path: [index], message: expected })
    }),
  })
}
