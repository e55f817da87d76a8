import type { CllmError } from '@cllm/core'
import { z } from 'zod'
import type { ErrorShape } from './koa-context.js'

/** Seconds after which a client may come again where nothing is known. */
const someSeconds = 5

/** What {@link ErrorBody} looks like. */
export const errorBodySchema = z.object({
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

/**
 * The status of a failure's answer on the routes that the original does not have: what ran out of
 * time was not the client's fault.
 */
export function statusElsewhere(error: CllmError): number {
  return error.code === 'timeout' ? 504 : error.status
}

/** How failures are worded where no protocol says otherwise. */
export const nativeErrors: ErrorShape & Required<Pick<ErrorShape, 'schema'>> = {
  covers: () => true,
  body: errorBody,
  schema: errorBodySchema,
}

/** How failures at a path are worded: by the first shape that covers it. */
export const shapeFor = (shapes: readonly ErrorShape[], path: string): ErrorShape =>
  shapes.find((shape) => shape.covers(path)) ?? nativeErrors

/** The headers of a failure's answer. */
export function errorHeaders(error: CllmError): Record<string, string> {
  return isTurnedAway(error) ? { 'Retry-After': String(retryAfter(error)) } : {}
}

/** Whether it came to a queue that takes no more. */
function isTurnedAway({ code }: CllmError): boolean {
  return code === 'queue_full' || code === 'wait_too_long'
}

/** Seconds after which it may be worth coming again. */
function retryAfter({ details: { retryAfterMs } }: CllmError): number {
  return typeof retryAfterMs === 'number'
    ? Math.max(1, Math.ceil(retryAfterMs / 1000))
    : someSeconds
}

function wording(error: CllmError): Pick<ErrorBody, 'error' | 'message' | 'retry_after'> {
  switch (error.code) {
    case 'queue_full':
    case 'wait_too_long':
      return {
        error: 'Request queue is full',
        message: 'Server is currently at maximum capacity. Please try again later.',
        retry_after: retryAfter(error),
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
