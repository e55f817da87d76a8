import type { CllmError } from '@cllm/core'
import { z } from 'zod'
import { errorField, errorMessage, statusElsewhere, tooLong } from '../../errors/error-body.js'
import type { ErrorFormat } from '../../routes/route.js'

/** The schema of OpenAI's errors. */
export const openAiErrorSchema = z.object({
  error: z.object({
    message: z.string(),
    type: z.string(),
    param: z.string().nullable(),
    code: z.string().nullable(),
    n_prompt_tokens: z.int().optional(),
    n_ctx: z.int().optional(),
  }),
})

/** A failure in OpenAI's form. */
export type OpenAiErrorBody = Readonly<z.output<typeof openAiErrorSchema>>

/** OpenAI's own codes, where programs look for them. */
const codes: Readonly<Record<string, string>> = {
  prompt_too_long: 'context_length_exceeded',
  queue_full: 'rate_limit_exceeded',
  wait_too_long: 'rate_limit_exceeded',
  rate_limited: 'rate_limit_exceeded',
  unauthenticated: 'invalid_api_key',
}

function codeOf({ code, details }: CllmError): string {
  // a minute's limit is waited for; a month's would be, too
  if (code === 'rate_limited' && 'month' in details) return 'insufficient_quota'
  return codes[code] ?? code
}

/** The body of a failure's answer, also sent as an event when a stream fails. */
export function openAiErrorBody(error: CllmError): OpenAiErrorBody {
  const status = statusElsewhere(error)
  return {
    error: {
      message: errorMessage(error),
      type: types[status] ?? (status < 500 ? 'invalid_request_error' : 'server_error'),
      param: errorField(error) ?? null,
      code: codeOf(error),
      ...tooLong(error),
    },
  }
}

const types: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  429: 'rate_limit_error',
  503: 'unavailable_error',
}

/** The format of OpenAI's errors. */
export const openAiErrors: ErrorFormat = {
  name: 'openai-error',
  status: statusElsewhere,
  body: openAiErrorBody,
  schema: openAiErrorSchema,
}
