import { cancelReason } from './cancel-reason.js'
import { CllmError } from './cllm-error.js'

/** Why a signal was aborted: the message of the {@link CllmError} that it was aborted with. */
export function reasonOf(signal: AbortSignal | undefined): string | undefined {
  const reason: unknown = signal?.reason
  return CllmError.isInstance(reason) ? reason.message : undefined
}

/** The error of a request or call whose signal aborted. */
export const cancelled = (signal?: AbortSignal): CllmError =>
  new CllmError('cancelled', reasonOf(signal) ?? cancelReason)
