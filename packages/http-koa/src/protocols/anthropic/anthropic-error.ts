import type { CllmError } from '@cllm/core'
import { z } from 'zod'
import type { ErrorFormat } from '../../routes/route.js'
import { errorMessage, statusElsewhere } from '../../errors/error-body.js'

/** The schema of Anthropic's errors. */
export const anthropicErrorSchema = z.object({
  type: z.literal('error'),
  error: z.object({
    type: z.string(),
    message: z.string(),
    details: z.object({ error_code: z.string() }).optional(),
  }),
  request_id: z.string().nullable(),
})

/** A failure in Anthropic's form. */
export type AnthropicErrorBody = Readonly<z.output<typeof anthropicErrorSchema>>

const types: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  503: 'overloaded_error',
  504: 'timeout_error',
}

/** The body of a failure's answer, also sent as the `error` event of a stream. */
export function anthropicErrorBody(error: CllmError, id?: string): AnthropicErrorBody {
  const status = statusElsewhere(error)
  const type = types[status] ?? (status < 500 ? 'invalid_request_error' : 'api_error')
  const isThread = error.code === 'unsupported' && error.details.field === 'thread'
  return {
    type: 'error',
    error: {
      type,
      // at these words Anthropic's programs leave the image out, and go on
      message: `${error.code === 'invalid_media' ? 'Could not process image: ' : ''}${errorMessage(error)}`,
      // with it Anthropic's client goes on with whole conversations
      ...(isThread && { details: { error_code: 'thread_unsupported_request' } }),
    },
    request_id: id ?? null,
  }
}

/** How Anthropic's routes fail. */
export const anthropicErrors: ErrorFormat = {
  name: 'anthropic-error',
  status: statusElsewhere,
  body: anthropicErrorBody,
  schema: anthropicErrorSchema,
}
