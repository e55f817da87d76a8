import { CllmError } from '@cllm/core'

/** The error for a field that this server cannot honour. A field is refused, never ignored. */
export function unsupported(field: string, what: string): CllmError {
  return new CllmError('unsupported', `${field}: ${what}`, { details: { field } })
}
