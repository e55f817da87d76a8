import type { JsonSchema } from '@cllm/core'
import type { ToolDefinition } from '../format/chat-format.js'

/** How a model names the parts of a call. */
export interface CallKeys {
  readonly nameKey: string
  readonly argumentsKey: string
}

const usual: CallKeys = { nameKey: 'name', argumentsKey: 'arguments' }

/**
 * The schema of a call of one of these tools.
 *
 * @param place - where it will stand in another schema, as a URI fragment
 */
export function callsSchema(
  tools: readonly ToolDefinition[],
  keys: CallKeys = usual,
  place = '#',
): JsonSchema {
  const [only] = tools
  if (only !== undefined && tools.length === 1) return callSchema(only, keys, place)
  return {
    anyOf: tools.map((tool, index) => callSchema(tool, keys, `${place}/anyOf/${index}`)),
  }
}

function callSchema(
  { function: { name, parameters } }: ToolDefinition,
  { nameKey, argumentsKey }: CallKeys,
  place: string,
): JsonSchema {
  const given = moved(parameters ?? { type: 'object' }, `${place}/properties/${argumentsKey}`)
  return {
    type: 'object',
    properties: { [nameKey]: { const: name }, [argumentsKey]: given as JsonSchema },
    required: [nameKey, argumentsKey],
    additionalProperties: false,
  }
}

/** Keywords whose values are data, not schemas. */
const data = new Set(['const', 'enum', 'default', 'examples'])
/** Keywords whose members have names of their own. */
const named = new Set(['properties', 'patternProperties', '$defs', 'definitions'])

/** A schema whose references are right where it stands inside another one. */
function moved(schema: unknown, place: string): unknown {
  if (Array.isArray(schema)) return schema.map((item) => moved(item, place))
  if (typeof schema !== 'object' || schema === null) return schema
  const entries = Object.entries(schema).map(([keyword, value]: [string, unknown]) => {
    if (data.has(keyword)) return [keyword, value]
    if (keyword === '$ref') return [keyword, movedReference(value, place)]
    if (!named.has(keyword) || typeof value !== 'object' || value === null) {
      return [keyword, moved(value, place)]
    }
    const members = Object.entries(value).map(([name, inner]) => [name, moved(inner, place)])
    return [keyword, Object.fromEntries(members)]
  })
  return Object.fromEntries(entries)
}

const movedReference = (value: unknown, place: string): unknown =>
  typeof value === 'string' && /^#(\/|$)/.test(value) ? place + value.slice(1) : value
