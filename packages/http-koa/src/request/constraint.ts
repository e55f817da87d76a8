import { CllmError, type EngineClient, type JsonSchema, type OutputConstraint } from '@cllm/core'
import { unsupported } from './refuse-unsupported.js'

/** What an answer must look like, and the field that says so. */
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

/** The error for what is no schema. */
export const expectedSchema = (field: string): CllmError =>
  new CllmError('invalid_request', `${field}: expected a JSON schema`, { details: { field } })

/**
 * The one constraint of a request. Throws `invalid_request` when there are two, and `unsupported`,
 * naming the field, where the backend cannot keep to any: never is one left out.
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
