import { z } from 'zod'
import type { JsonObject } from '../read-json-body.js'

/** A zod schema as JSON schema: what clients may send. */
export function schemaOf(schema: z.ZodType): JsonObject {
  const { $schema: _, ...described } = z.toJSONSchema(schema, {
    io: 'input',
    unrepresentable: 'any',
  })
  return described
}
