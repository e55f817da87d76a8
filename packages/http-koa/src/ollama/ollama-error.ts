import type { CllmError } from '@cllm/core'
import { z } from 'zod'
import { errorMessage } from '../error-body.js'

/** What a failure looks like with Ollama. */
export const ollamaErrorSchema = z.object({ error: z.string() })

/** A failure as Ollama words it. */
export function ollamaErrorBody(error: CllmError): z.output<typeof ollamaErrorSchema> {
  return {
    error:
      error.code === 'queue_full' || error.code === 'wait_too_long'
        ? 'server busy, please try again.  maximum pending requests exceeded'
        : errorMessage(error),
  }
}
