import { z } from 'zod'
import { readJsonBody } from '../../body/read-json-body.js'
import { abortOnClose } from '../../stream/abort-on-close.js'
import { name, text, tokenIds } from '../../fields/fields.js'
import { parseFields } from '../../fields/parse-fields.js'
import type { KoaContext } from '../../routes/koa-context.js'
import type { NativeContext } from './native-context.js'

/** The body of `POST /encode`. */
export const encodeSchema = z.object({ text, model: name.optional() })

/** `POST /encode`: the tokens of a text, as a prompt has them. */
export async function encode(ctx: KoaContext, native: NativeContext): Promise<void> {
  const fields = parseFields(encodeSchema, await readJsonBody(ctx))
  const tokens = await native.directory
    .open(fields.model)
    .tokenize(fields.text, { signal: abortOnClose(ctx) })
  ctx.body = { success: true, data: { tokens, length: tokens.length } }
}

/** The body of `POST /decode`. */
export const decodeSchema = z.object({ tokens: tokenIds, model: name.optional() })

/** `POST /decode`: the text of tokens. */
export async function decode(ctx: KoaContext, native: NativeContext): Promise<void> {
  const { tokens, model } = parseFields(decodeSchema, await readJsonBody(ctx))
  const text = await native.directory.open(model).detokenize(tokens)
  ctx.body = { success: true, data: { text } }
}
