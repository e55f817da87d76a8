import { z } from 'zod'
import type { KoaContext } from '../koa-context.js'
import { parseFields } from '../parse-fields.js'
import { readJsonBody } from '../read-json-body.js'
import { name, text } from '../request/fields.js'
import type { NativeContext } from './native-context.js'

/** The body of `POST /encode`. */
export const encodeSchema = z.object({ text, model: name.optional() })

/** `POST /encode`: the tokens of a text, as a prompt has them. */
export async function encode(ctx: KoaContext, native: NativeContext): Promise<void> {
  const fields = parseFields(encodeSchema, await readJsonBody(ctx))
  const tokens = await native.directory.open(fields.model).tokenize(fields.text)
  ctx.body = { success: true, data: { tokens, length: tokens.length } }
}
