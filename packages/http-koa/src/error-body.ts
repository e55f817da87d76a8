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
  /** What would do, where that can be listed: the names of policies, the options of one. */
  readonly valid?: readonly unknown[]
}

/** The body of a failure's answer. */
export function errorBody(error: CllmError): ErrorBody {
  const field = errorField(error)
  const { valid } = error.details
  return {
    success: false,
    ...wording(error),
    code: error.code,
    ...(field === undefined ? {} : { field }),
    ...(Array.isArray(valid) ? { valid: valid as readonly unknown[] } : {}),
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
      return { error: errorMessage(error) }
  }
}

/** What went wrong, with the field as HTTP's APIs write it. */
export function errorMessage(error: CllmError): string {
  const field = errorField(error)
  return field === undefined
    ? error.message
    : error.message.replace(String(error.details.field), field)
}

/** The field at fault; the engine says `logitBias` of what is `logit_bias` in HTTP's APIs. */
export function errorField({ details: { field } }: CllmError): string | undefined {
  if (typeof field !== 'string') return undefined
  return field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}
