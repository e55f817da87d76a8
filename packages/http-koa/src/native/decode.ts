import { z } from 'zod'
import type { KoaContext } from '../koa-context.js'
import { parseFields } from '../parse-fields.js'
import { readJsonBody } from '../read-json-body.js'
import { name, tokenIds } from '../request/fields.js'
import type { NativeContext } from './native-context.js'

/** The body of `POST /decode`. */
export const decodeSchema = z.object({ tokens: tokenIds, model: name.optional() })

/** `POST /decode`: the text of tokens. */
export async function decode(ctx: KoaContext, native: NativeContext): Promise<void> {
  const { tokens, model } = parseFields(decodeSchema, await readJsonBody(ctx))
  const text = await native.directory.open(model).detokenize(tokens)
  ctx.body = { success: true, data: { text } }
}
