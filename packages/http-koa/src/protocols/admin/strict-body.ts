import { CllmError } from '@cllm/core'
import type { z } from 'zod'
import { readJsonBody } from '../../body/read-json-body.js'
import { parseFields } from '../../fields/parse-fields.js'
import type { KoaContext } from '../../routes/koa-context.js'

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
    const message = `${field}: expected the fields ${fields} only`
    throw new CllmError('invalid_request', message, { details: { field } })
  }
  return parseFields(schema, body)
}
