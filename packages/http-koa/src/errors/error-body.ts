import { CllmError, type Logger } from '@cllm/core'
import { z } from 'zod'
import type { ErrorFormat } from '../routes/route.js'
import { snakeCase } from '../fields/fields.js'

/**
 * The error to show to a client. An error that is not a {@link CllmError}, in this process or the engine's,
 * is a defect: its message and stack only go to the log. Server errors are logged, too.
 */
export function publicError(error: unknown, logger: Logger): CllmError {
  if (!CllmError.isInstance(error) || error.code === 'internal') {
    logger.error({ err: error }, 'request failed')
    return new CllmError('internal', 'Internal error. The log of the server has the cause', {
      cause: error,
    })
  }
  if (error.status === 500) logger.error({ err: error }, 'request failed')
  else logger.debug({ code: error.code, refusal: error.message }, 'request refused')
  return error
}

/** Seconds to wait before a retry when no estimate is known. */
const someSeconds = 5

/** The schema of {@link ErrorBody}. */
export const errorBodySchema = z.object({
  success: z.literal(false),
  error: z.string(),
  message: z.string().optional(),
  retry_after: z.number().optional(),
  code: z.string(),
  field: z.string().optional(),
  /** The valid values, if they can be listed, such as options of a policy; of a policy's name, its parts' by kind. */
  valid: z.union([z.array(z.unknown()), z.record(z.string(), z.array(z.string()))]).optional(),
})

/** An error in the native API's format: that of the original cLLM, plus a code and the field at fault. */
export type ErrorBody = Readonly<z.output<typeof errorBodySchema>>

/** The body of an error's answer in the native API. */
export function errorBody(error: CllmError): ErrorBody {
  const field = errorField(error)
  const { valid } = error.details
  return {
    success: false,
    ...wording(error),
    code: error.code,
    ...(field === undefined ? {} : { field }),
    ...(valid !== undefined && { valid: valid as ErrorBody['valid'] }),
  }
}

/**
 * The status of an error outside the native API. A timeout is 504, since it is not the client's fault; the native
 * API answers 408 as the original does.
 */
export const statusElsewhere = ({ code, status }: CllmError): number =>
  code === 'timeout' ? 504 : status

/** The error format of an API that other servers have, too. */
export const errorsElsewhere = (
  name: string,
  schema: z.ZodObject,
  body: ErrorFormat['body'],
): ErrorFormat => ({ name, status: statusElsewhere, schema, body })

/** The native API's error format, also for protocols without a format of their own. */
export const nativeErrors: ErrorFormat & Required<Pick<ErrorFormat, 'schema'>> = {
  name: 'error',
  body: errorBody,
  schema: errorBodySchema,
}

/** Errors that pass by themselves. Clients that are told no time retry for a second or two and give up. */
const passing: ReadonlySet<string> = new Set(['queue_full', 'wait_too_long', 'model_loading'])

/** The headers of an error's answer. */
export function errorHeaders(error: CllmError): Record<string, string> {
  const { code, details } = error
  const isTimed = passing.has(code) || details['retryAfterMs'] !== undefined
  return {
    ...(isTimed && { 'Retry-After': String(retryAfter(error)) }),
    // else OpenAI's and Anthropic's clients retry twice: after a timeout for as long again, in a month far too early
    ...((code === 'timeout' || 'month' in details) && { 'x-should-retry': 'false' }),
  }
}

/** Seconds to wait before a retry. */
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

/** The error's message with the field's name in snake_case, as in HTTP APIs. */
export function errorMessage(error: CllmError): string {
  const field = errorField(error)
  return field === undefined
    ? error.message
    : error.message.replace(String(error.details.field), () => field)
}

/** The field at fault in snake_case: the engine's `logitBias` becomes `logit_bias`. */
export const errorField = ({ details: { field } }: CllmError): string | undefined =>
  typeof field === 'string' ? snakeCase(field) : undefined

/** The fields that OpenAI's and llama-server's formats add for a prompt that is too long; false for other errors. */
export const tooLong = ({ code, details }: CllmError) =>
  code === 'prompt_too_long' && {
    type: 'exceed_context_size_error',
    n_prompt_tokens: Number(details['promptTokens']),
    n_ctx: Number(details['contextSize']),
  }
