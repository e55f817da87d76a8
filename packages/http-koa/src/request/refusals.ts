import { CllmError } from '@cllm/core'

/**
 * The error for a field that this server knows and cannot honour: it is refused, never ignored. Of fields
 * that it does not know the log says so.
 */
export function unsupported(field: string, what: string): CllmError {
  return new CllmError('unsupported', `${field}: ${what}`, { details: { field } })
}

/** The error for a field that has another value than was expected. */
export const expectedField = (field: string, expected: string): CllmError =>
  new CllmError('invalid_request', `${field}: expected ${expected}`, { details: { field } })

/** The error for a field that has to be there. */
export const missingField = (field: string, details: object = {}): CllmError =>
  new CllmError('invalid_request', `Missing required field: ${field}`, {
    details: { field, ...details },
  })

/** The refusal of an image, a sound or a file: it says what is missing, and where to look. */
export const noImages = (field: string, type = 'image'): CllmError =>
  unsupported(
    field,
    `${type.slice(0, 40)} input is not supported: this model is served for text only. Images need a ` +
      'projector (--mmproj FILE) and are described in docs/api.md; or send a description',
  )
