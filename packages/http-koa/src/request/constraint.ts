import type { EngineClient, OutputConstraint } from '@cllm/core'
import { isObject } from '../fields/fields.js'
import { expectedField, unsupported } from './refusals.js'

/** A constraint on the output, and the field that asks for it. */
export interface FieldConstraint {
  readonly field: string
  readonly constraint: OutputConstraint
}

/**
 * The constraint of a field that holds a JSON schema, any of them; the backend checks it.
 *
 * @param at - where the schema is in the field, for the message
 * @throws `invalid_request` for another value
 */
export function schemaConstraint(field: string, value: unknown, at = field): FieldConstraint {
  if (typeof value !== 'boolean' && !isObject(value)) throw expectedField(at, 'a JSON schema')
  return { field, constraint: { type: 'json-schema', schema: value } }
}

/** The constraint of a field `grammar` in GBNF; an empty text is none. */
export const grammarConstraint = (grammar: string): FieldConstraint | undefined =>
  grammar === '' ? undefined : { field: 'grammar', constraint: { type: 'gbnf', grammar } }

/**
 * The one constraint of a request. A constraint is never ignored.
 *
 * @throws `invalid_request` when there are two, or `unsupported` when the backend has no grammars
 */
export async function onlyConstraint(
  client: EngineClient,
  constraints: readonly (FieldConstraint | undefined)[],
): Promise<OutputConstraint | undefined> {
  const [first, second] = constraints.filter((constraint) => constraint !== undefined)
  if (first === undefined) return undefined
  if (second !== undefined) {
    throw expectedField(second.field, `nothing beside ${first.field}`)
  }
  const { capabilities } = await client.info()
  if (capabilities.grammar) return first.constraint
  throw unsupported(first.field, 'this backend cannot keep output to a grammar or schema')
}
