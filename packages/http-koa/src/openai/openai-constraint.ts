import { CllmError, type JsonSchema } from '@cllm/core'
import type { ToolDefinition } from '../chat/tool-prompt.js'
import { asSchema, expectedSchema, type FieldConstraint } from '../request/constraint.js'

/** What `grammar` asks for. */
export const grammarConstraint = (grammar: string | undefined): FieldConstraint | undefined =>
  grammar === undefined || grammar === ''
    ? undefined
    : { field: 'grammar', constraint: { type: 'gbnf', grammar } }

/** What `response_format` asks for. llama-server's clients put the schema beside `json_object`. */
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
    case 'json_schema': {
      const inner = asSchema(format?.['json_schema'])
      const schema = typeof inner === 'object' ? inner['schema'] : undefined
      return ofSchema(schema, `${field}.json_schema.schema`)
    }
    default:
  }
  const message = `${field}.type: expected text, json_object or json_schema`
  throw new CllmError('invalid_request', message, { details: { field: `${field}.type` } })
}

function ofSchema(value: unknown, field: string): FieldConstraint {
  const schema = asSchema(value)
  if (schema === undefined) throw expectedSchema(field)
  return { field: 'response_format', constraint: { type: 'json-schema', schema } }
}

/** What `tool_choice` asks for: a call of any tool, or of one, and nothing else. */
export function toolConstraint(
  choice: string | Readonly<Record<string, unknown>> | undefined,
  tools: readonly ToolDefinition[],
): FieldConstraint | undefined {
  const field = 'tool_choice'
  if (choice === undefined || choice === 'none' || choice === 'auto') return undefined
  const named = typeof choice === 'string' ? undefined : asSchema(choice['function'])
  const name = typeof named === 'object' ? named['name'] : undefined
  const chosen =
    typeof choice === 'string' ? tools : tools.filter((tool) => tool.function.name === name)
  if (chosen.length === 0) {
    const message = `${field}: expected none, auto, required or one of the tools`
    throw new CllmError('invalid_request', message, { details: { field } })
  }
  const [only] = chosen.map(callSchema)
  const schema: JsonSchema = chosen.length === 1 ? only! : { anyOf: chosen.map(callSchema) }
  return { field, constraint: { type: 'json-schema', schema } }
}

const callSchema = ({ function: { name, parameters } }: ToolDefinition): JsonSchema => ({
  type: 'object',
  properties: { name: { const: name }, arguments: parameters ?? { type: 'object' } },
  required: ['name', 'arguments'],
  additionalProperties: false,
})
