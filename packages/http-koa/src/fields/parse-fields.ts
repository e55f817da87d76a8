import { CllmError } from '@cllm/core'
import type { z } from 'zod'
import type { JsonObject } from '../body/read-json-body.js'

/**
 * Checks a body against a schema whose messages name what is expected ("a number from 0 to 2").
 *
 * @throws `invalid_request` with the first field at fault
 */
export function parseFields<Schema extends z.ZodObject>(
  schema: Schema,
  body: JsonObject,
): z.output<Schema> {
  const result = schema.safeParse(body)
  if (result.success) return result.data
  const [issue] = result.error.issues
  const path = issue?.path ?? []
  const field = path.join('.')
  const received = path.reduce<unknown>(
    (value, key) => (value as Record<PropertyKey, unknown> | undefined)?.[key],
    body,
  )
  const expected = issue?.message ?? ''
  const details = { field, expected, received: describe(received) }
  if (received === undefined) {
    throw new CllmError('invalid_request', `Missing required field: ${field}`, { details })
  }
  const message = `${field}: expected ${expected}, instead got ${details.received}`
  throw new CllmError('invalid_request', message, { details })
}

function describe(value: unknown): string {
  if (typeof value === 'string') {
    return value.length > 40 ? `a string of ${value.length} characters` : JSON.stringify(value)
  }
  if (Array.isArray(value)) return value.length === 0 ? 'an empty array' : 'an array'
  if (typeof value === 'object' && value !== null) return 'an object'
  return String(value)
}
