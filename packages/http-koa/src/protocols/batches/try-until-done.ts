import type { Clock } from '@cllm/core'

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

/**
 * Does something again until it succeeds: a full disk does not stay full. Returns what it returns, or undefined when the
 * signal fires.
 */
export async function tryUntilDone<T>(
  work: () => Promise<T>,
  { clock, signal, onError }: TryUntilDoneParts,
): Promise<T | undefined> {
  for (let pause = firstPause; !signal.aborted; pause = Math.min(2 * pause, longestPause)) {
    try {
      return await work()
    } catch (error) {
      onError(error)
    }
    await waitFor(clock, pause, signal)
  }
  return undefined
}

/** Resolves after some seconds, or when the signal fires. */
async function waitFor(clock: Clock, seconds: number, signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    const done = () => {
      cancel()
      signal.removeEventListener('abort', done)
      resolve()
    }
    const cancel = clock.at(clock.now() + 1000 * seconds, done)
    signal.addEventListener('abort', done)
    if (signal.aborted) done()
  })
}
