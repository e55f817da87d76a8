import type { CllmError } from '@cllm/core'
import { z } from 'zod'
import { errorMessage, statusElsewhere, tooLong } from '../../errors/error-body.js'

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
  const status = statusElsewhere(error)
  return {
    error: {
      code: status,
      message: errorMessage(error),
      type: types[status] ?? (status < 500 ? 'invalid_request_error' : 'server_error'),
      ...tooLong(error),
    },
  }
}
