import type { RequestEvent } from '../contracts/engine/engine-client.js'
import { CllmError } from './cllm-error.js'

/** The event that ends a request with an error of which nothing more is known. */
export function failureOf(error: unknown): RequestEvent & { readonly type: 'error' } {
  return { type: 'error', error: CllmError.from(error).serialize() }
}
