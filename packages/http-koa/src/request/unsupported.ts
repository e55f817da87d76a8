import { CllmError } from '@cllm/core'

/**
 * The error for a field that this server knows and cannot honour: it is refused, never ignored. Of fields
 * that it does not know the log says so.
 */
export function unsupported(field: string, what: string): CllmError {
  return new CllmError('unsupported', `${field}: ${what}`, { details: { field } })
}
