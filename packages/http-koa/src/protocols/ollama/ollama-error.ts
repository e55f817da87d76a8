import type { CllmError } from '@cllm/core'
import { z } from 'zod'
import { errorMessage } from '../../errors/error-body.js'

/** The schema of Ollama's errors. */
export const ollamaErrorSchema = z.object({ error: z.string() })

/** A failure in Ollama's form. */
export function ollamaErrorBody(error: CllmError): z.output<typeof ollamaErrorSchema> {
  return {
    error:
      error.code === 'queue_full' || error.code === 'wait_too_long'
        ? 'server busy, please try again.  maximum pending requests exceeded'
        : errorMessage(error),
  }
}
