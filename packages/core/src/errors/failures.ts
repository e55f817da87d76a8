import type { RequestEvent } from '../contracts/engine/engine-client.js'
import { CllmError } from './cllm-error.js'

/** What the error of a cancelled request says, where whoever cancelled it gave no reason. */
export const cancelReason = 'The request was cancelled'

/** Why a signal was aborted: the message of the {@link CllmError} that it was aborted with. */
export function reasonOf(signal: AbortSignal | undefined): string | undefined {
  const reason: unknown = signal?.reason
  return CllmError.isInstance(reason) ? reason.message : undefined
}

/** The error of a request or call whose signal aborted. */
export const cancelled = (signal?: AbortSignal): CllmError =>
  new CllmError('cancelled', reasonOf(signal) ?? cancelReason)

/** The event that ends a request with an error of which nothing more is known. */
export function failureOf(error: unknown): RequestEvent & { readonly type: 'error' } {
  return { type: 'error', error: CllmError.from(error).serialize() }
}
