import type { z } from 'zod'
import type { KoaContext } from '../routes/koa-context.js'
import type { UnknownFields } from './unknown-fields.js'
import { parseFields } from './parse-fields.js'
import { type JsonObject, readJsonBody } from '../body/read-json-body.js'

/**
 * The checked body of a request. A null counts as absent, since many clients send it so. Unknown
 * fields are ignored, with one warning per name in the log.
 */
export async function readFields<Schema extends z.ZodObject>(
  ctx: KoaContext,
  schema: Schema,
  unknownFields: UnknownFields,
): Promise<z.output<Schema>> {
  const body = withoutNulls(await readJsonBody(ctx))
  unknownFields.warn(body, schema.shape, ctx.state.transport.logger)
  return parseFields(schema, body)
}

function withoutNulls(body: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null))
}
