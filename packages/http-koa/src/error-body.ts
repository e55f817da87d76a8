import type { CllmError } from '@cllm/core'
import { z } from 'zod'
import type { ErrorShape } from './koa-context.js'

/** Seconds after which a client that was turned away may come again. */
const retryAfterSeconds = 5

const errorBodySchema = z.object({
  success: z.literal(false),
  error: z.string(),
  message: z.string().optional(),
  retry_after: z.number().optional(),
  code: z.string(),
  field: z.string().optional(),
  /** What would do, where that can be listed: the names of policies, the options of one. */
  valid: z.array(z.unknown()).optional(),
})

/** A failure as the original cLLM words it, with cLLM's code and the field at fault. */
export type ErrorBody = Readonly<z.output<typeof errorBodySchema>>

/** The body of a failure's answer. */
export function errorBody(error: CllmError): ErrorBody {
  const field = errorField(error)
  const { valid } = error.details
  return {
    success: false,
    ...wording(error),
    code: error.code,
    ...(field === undefined ? {} : { field }),
    ...(Array.isArray(valid) ? { valid } : {}),
  }
}

/** How failures are worded where no protocol says otherwise. */
export const nativeErrors = {
  covers: () => true,
  body: errorBody,
  schema: errorBodySchema,
} satisfies ErrorShape

/** How failures at a path are worded: by the first shape that covers it. */
export const shapeFor = (shapes: readonly ErrorShape[], path: string): ErrorShape =>
  shapes.find((shape) => shape.covers(path)) ?? nativeErrors

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
