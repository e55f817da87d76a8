import type { CllmError } from '@cllm/core'
import { errorMessage } from '../error-body.js'

/** A failure as Ollama words it. */
export function ollamaErrorBody(error: CllmError): { readonly error: string } {
  return {
    error:
      error.code === 'queue_full'
        ? 'server busy, please try again.  maximum pending requests exceeded'
        : errorMessage(error),
  }
}
