import type { CllmError } from '@cllm/core'

/** Seconds after which a client that was turned away may come again. */
const retryAfterSeconds = 5

/** A failure as the original cLLM words it, with cLLM's code and the field at fault. */
export interface ErrorBody {
  readonly success: false
  readonly error: string
  readonly message?: string
  readonly retry_after?: number
  readonly code: string
  readonly field?: string
}

/** The body of a failure's answer. */
export function errorBody(error: CllmError): ErrorBody {
  const field = error.details.field
  return {
    success: false,
    ...wording(error),
    code: error.code,
    ...(typeof field === 'string' ? { field } : {}),
  }
}

/** The headers of a failure's answer. */
export function errorHeaders(error: CllmError): Record<string, string> {
  return error.code === 'queue_full' ? { 'Retry-After': String(retryAfterSeconds) } : {}
}

function wording(error: CllmError): Pick<ErrorBody, 'error' | 'message' | 'retry_after'> {
  switch (error.code) {
    case 'queue_full':
      return {
        error: 'Request queue is full',
        message: 'Server is currently at maximum capacity. Please try again later.',
        retry_after: retryAfterSeconds,
      }
    case 'timeout':
      return { error: 'Request timeout', message: 'Request timed out' }
    default:
      return { error: error.message }
  }
}
