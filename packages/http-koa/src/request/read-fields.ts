import type { z } from 'zod'
import type { KoaContext } from '../koa-context.js'
import type { UnknownFields } from '../native/unknown-fields.js'
import { parseFields } from '../parse-fields.js'
import { type JsonObject, readJsonBody } from '../read-json-body.js'

/**
 * The checked body of a request. Many clients send null for what they do not say; fields that mean
 * nothing here are named in the log, once.
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
