import { z } from 'zod'
import { object } from '../../fields/fields.js'
import { asSchema, expectedSchema, type FieldConstraint } from '../../request/constraint.js'

/** What an answer is to look like: `output_config.format`, and `output_format` as it was called before. */
export const outputFields = {
  output_config: z.looseObject({ format: object.nullish() }, 'an object').optional(),
  output_format: object.optional(),
}

/** These fields of a body. */
export type OutputFields = {
  readonly [Name in keyof typeof outputFields]?: z.output<(typeof outputFields)[Name]>
}

/**
 * The schema that an answer is held to.
 *
 * @throws CllmError `invalid_request` for what is no JSON schema
 */
export function outputConstraint(fields: OutputFields): FieldConstraint | undefined {
  const { output_config: config, output_format: older } = fields
  const format = config?.format ?? older
  if (format === undefined) return undefined
  const field = format === older ? 'output_format' : 'output_config.format'
  const schema = format['type'] === 'json_schema' ? asSchema(format['schema']) : undefined
  if (schema === undefined) throw expectedSchema(`${field}.schema`)
  return { field, constraint: { type: 'json-schema', schema } }
}
