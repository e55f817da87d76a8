import { CllmError, type Logger } from '@cllm/core'
import type { z } from 'zod'
import type { JsonObject } from '../fields/fields.js'
import type { KoaContext } from '../routes/koa-context.js'

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

/** The most names to remember, so that no client can fill the memory or the log. */
const mostNames = 100

/** Logs a warning for unknown fields, once per name. */
export class UnknownFields {
  readonly #seen = new Set<string>()

  /** Logs a field that is not known. */
  warn(field: string, logger: Logger): void {
    if (this.#seen.has(field) || this.#seen.size >= mostNames || field.length > 100) return
    this.#seen.add(field)
    logger.warn({ field }, 'unknown field in a request is ignored')
  }
}

/**
 * The checked query of a request; a repeated name has an array. koa's own `ctx.query` is quadratic: a
 * query of 15 KB blocks it for seconds.
 */
export function readQuery<Schema extends z.ZodObject>(
  ctx: KoaContext,
  schema: Schema,
): z.output<Schema> {
  const query = new Map<string, string | string[]>()
  for (const [name, value] of new URLSearchParams(ctx.querystring)) {
    const before = query.get(name)
    if (Array.isArray(before)) before.push(value)
    else query.set(name, before === undefined ? value : [before, value])
  }
  return parseFields(schema, Object.fromEntries(query))
}
