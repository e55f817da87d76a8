import { CllmError, type EngineClient, type JsonSchema, type OutputConstraint } from '@cllm/core'
import { unsupported } from './unsupported.js'

/** A constraint on the output, and the field that asks for it. */
export interface FieldConstraint {
  readonly field: string
  readonly constraint: OutputConstraint
}

/** Any JSON schema; the backend checks it. */
export const asSchema = (value: unknown): JsonSchema | undefined => {
  if (typeof value === 'boolean') return value
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
  return isObject ? (value as Readonly<Record<string, unknown>>) : undefined
}

/** The constraint of a field `grammar` in GBNF; an empty text is none. */
export const grammarConstraint = (grammar: string | undefined): FieldConstraint | undefined =>
  grammar === undefined || grammar === ''
    ? undefined
    : { field: 'grammar', constraint: { type: 'gbnf', grammar } }

/** The error for a value that is not a schema. */
export const expectedSchema = (field: string): CllmError =>
  new CllmError('invalid_request', `${field}: expected a JSON schema`, { details: { field } })

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
    const message = `${second.field}: expected nothing beside ${first.field}`
    throw new CllmError('invalid_request', message, { details: { field: second.field } })
  }
  const { capabilities } = await client.info()
  if (capabilities.grammar) return first.constraint
  throw unsupported(first.field, 'this backend cannot keep output to a grammar or schema')
}
