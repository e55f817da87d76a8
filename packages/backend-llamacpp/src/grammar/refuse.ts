import { CllmError } from '@cllm/core'

/** The error for a constraint that cannot be honoured. */
export function refused(message: string, details: Readonly<Record<string, unknown>>): CllmError {
  return new CllmError('invalid_constraint', message, {
    details: { field: 'constraint', ...details },
  })
}

/**
 * The error for what in a schema cannot be honoured.
 * @param pointer - the JSON pointer of the keyword or schema, as a URI fragment
 */
export function refusedSchema(pointer: string, reason: string): CllmError {
  return refused(`The JSON schema cannot be kept to: ${pointer}: ${reason}`, { pointer, reason })
}
