import { z } from 'zod'
import type { KoaContext } from '../koa-context.js'
import { parseFields } from '../parse-fields.js'
import { readJsonBody } from '../read-json-body.js'
import type { NativeContext } from './native-context.js'

const encodeSchema = z.object({ text: z.string('a text') })

/** `POST /encode`: the tokens of a text, as a prompt has them. */
export async function encode(ctx: KoaContext, native: NativeContext): Promise<void> {
  const { text } = parseFields(encodeSchema, await readJsonBody(ctx))
  const tokens = await native.directory.open().tokenize(text)
  ctx.body = { success: true, data: { tokens, length: tokens.length } }
}
