import { CllmError } from '@cllm/core'

/** Throws `unsupported` that names the field: never an answer without what was asked for. */
export function unsupported(field: string, what: string): CllmError {
  return new CllmError('unsupported', `${field}: ${what}`, { details: { field } })
}
