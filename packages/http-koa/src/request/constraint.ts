import type { CllmError, EngineClient, JsonSchema, OutputConstraint } from '@cllm/core'
import { isObject } from '../fields/fields.js'
import { expectedField, unsupported } from './refusals.js'

/** A constraint on the output, and the field that asks for it. */
export interface FieldConstraint {
  readonly field: string
  readonly constraint: OutputConstraint
}

/** Any JSON schema; the backend checks it. */
export const asSchema = (value: unknown): JsonSchema | undefined => {
  if (typeof value === 'boolean') return value
  return isObject(value) ? value : undefined
}

/** The constraint of a field `grammar` in GBNF; an empty text is none. */
export const grammarConstraint = (grammar: string): FieldConstraint | undefined =>
  grammar === '' ? undefined : { field: 'grammar', constraint: { type: 'gbnf', grammar } }

/** The error for a value that is not a schema. */
export const expectedSchema = (field: string): CllmError => expectedField(field, 'a JSON schema')

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
