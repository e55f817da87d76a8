import { type Clock, pause } from '@cllm/core'

/** Milliseconds before the second try; each further pause is twice as long. */
const firstPause = 5000
const longestPause = 60_000

/** What {@link tryUntilDone} needs. */
export interface TryUntilDoneParts {
  readonly clock: Clock
  /** Ends it. */
  readonly signal: AbortSignal
  readonly onError: (error: unknown) => void
}

/**
 * Does something again until it succeeds: a full disk does not stay full. Returns what it returns, or undefined when the
 * signal fires.
 */
export async function tryUntilDone<T>(
  work: () => Promise<T>,
  { clock, signal, onError }: TryUntilDoneParts,
): Promise<T | undefined> {
  for (let ms = firstPause; !signal.aborted; ms = Math.min(2 * ms, longestPause)) {
    try {
      return await work()
    } catch (error) {
      onError(error)
    }
    await pause(clock, ms, signal)
  }
  return undefined
}
