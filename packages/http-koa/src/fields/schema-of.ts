import { z } from 'zod'
import type { JsonObject } from '../body/read-json-body.js'

/** The JSON schema of a zod schema's input. */
export function schemaOf(schema: z.ZodType): JsonObject {
  const { $schema: _, ...described } = z.toJSONSchema(schema, {
    io: 'input',
    unrepresentable: 'any',
  })
  return described
}
