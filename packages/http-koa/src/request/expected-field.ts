import { CllmError } from '@cllm/core'

/** The error for a field that has another value than was expected. */
export const expectedField = (field: string, expected: string): CllmError =>
  new CllmError('invalid_request', `${field}: expected ${expected}`, { details: { field } })
