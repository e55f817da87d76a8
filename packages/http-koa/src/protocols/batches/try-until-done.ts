import type { Clock } from '@cllm/core'
import { waitFor } from './lines/wait-for.js'

/** Seconds before the second try; each further pause is twice as long. */
const firstPause = 5
const longestPause = 60

/** What {@link tryUntilDone} needs. */
export interface TryUntilDoneParts {
  readonly clock: Clock
  /** Ends it. */
  readonly signal: AbortSignal
  readonly onError: (error: unknown) => void
}

/** Does something again until it succeeds, or the signal fires: a full disk does not stay full. */
export async function tryUntilDone(
  work: () => Promise<void>,
  { clock, signal, onError }: TryUntilDoneParts,
): Promise<void> {
  for (let pause = firstPause; !signal.aborted; pause = Math.min(2 * pause, longestPause)) {
    try {
      return await work()
    } catch (error) {
      onError(error)
    }
    await waitFor(clock, pause, signal)
  }
}
