import type { z } from 'zod'
import { readJsonBody } from '../../body/read-json-body.js'
import { parseFields } from '../../fields/parse-fields.js'
import type { KoaContext } from '../../routes/koa-context.js'
import { expectedField } from '../../request/expected-field.js'

/**
 * The checked body of a request that changes the server: a field that is not known may be a limit that
 * was misspelt, so it is refused.
 *
 * @throws `invalid_request` with the field at fault
 */
export async function readStrictBody<Schema extends z.ZodObject>(
  ctx: KoaContext,
  schema: Schema,
): Promise<z.output<Schema>> {
  const body = await readJsonBody(ctx)
  const unknown = Object.keys(body).find((field) => !Object.hasOwn(schema.shape, field))
  if (unknown !== undefined) {
    const field = unknown.slice(0, 100)
    const fields = Object.keys(schema.shape).join(' and ')
    throw expectedField(field, `the fields ${fields} only`)
  }
  return parseFields(schema, body)
}
