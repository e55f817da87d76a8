import type { CllmError } from '@cllm/core'
import { z } from 'zod'
import { errorMessage, statusElsewhere } from '../../errors/error-body.js'

const types: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  500: 'server_error',
  501: 'not_supported_error',
  503: 'unavailable_error',
}

/** The schema of llama-server's errors. */
export const llamaServerErrorSchema = z.object({
  error: z.object({
    code: z.int(),
    message: z.string(),
    type: z.string(),
    n_prompt_tokens: z.int().optional(),
    n_ctx: z.int().optional(),
  }),
})

/** A failure in llama-server's form. */
export function llamaServerErrorBody(error: CllmError): z.output<typeof llamaServerErrorSchema> {
  const { details } = error
  const status = statusElsewhere(error)
  const isTooLong = error.code === 'prompt_too_long'
  const type = types[status] ?? (status < 500 ? 'invalid_request_error' : 'server_error')
  return {
    error: {
      code: status,
      message: errorMessage(error),
      type: isTooLong ? 'exceed_context_size_error' : type,
      ...(isTooLong
        ? {
            n_prompt_tokens: Number(details['promptTokens']),
            n_ctx: Number(details['contextSize']),
          }
        : {}),
    },
  }
}
