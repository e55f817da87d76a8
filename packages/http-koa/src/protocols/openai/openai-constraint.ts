import { asSchema, expectedSchema, type FieldConstraint } from '../../request/constraint.js'
import { expectedField } from '../../request/expected-field.js'

/**
 * What `response_format` asks for. llama-server's clients put the schema beside `json_object`, those of
 * Hugging Face send it as the `value` of `json`, and a pattern as that of `regex`.
 */
export function formatConstraint(
  format: Readonly<Record<string, unknown>> | undefined,
): FieldConstraint | undefined {
  const field = 'response_format'
  switch (format?.['type']) {
    case undefined:
      if (format === undefined) return undefined
      break
    case 'text':
      return undefined
    case 'json_object':
      if (format?.['schema'] === undefined) return { field, constraint: { type: 'json' } }
      return ofSchema(format['schema'], `${field}.schema`)
    case 'json':
      return ofSchema(format?.['value'], `${field}.value`)
    case 'regex': {
      const pattern = format?.['value']
      if (typeof pattern !== 'string') throw expectedField(`${field}.value`, 'a regular expression')
      return { field, constraint: { type: 'regex', pattern } }
    }
    case 'json_schema': {
      const inner = asSchema(format?.['json_schema'])
      const schema = typeof inner === 'object' ? inner['schema'] : undefined
      return ofSchema(schema, `${field}.json_schema.schema`)
    }
    default:
  }
  throw expectedField(`${field}.type`, 'text, json_object or json_schema')
}

/** A schema at llama-server's top-level `json_schema`. */
export const schemaConstraint = (
  schema: Readonly<Record<string, unknown>> | undefined,
): FieldConstraint | undefined =>
  schema && { field: 'json_schema', constraint: { type: 'json-schema', schema } }

function ofSchema(value: unknown, field: string): FieldConstraint {
  const schema = asSchema(value)
  if (schema === undefined) throw expectedSchema(field)
  return { field: 'response_format', constraint: { type: 'json-schema', schema } }
}
