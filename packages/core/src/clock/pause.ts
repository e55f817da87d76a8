import type { Clock } from '../contracts/clock.js'

/** Resolves after this many milliseconds, or when the signal fires. */
export async function pause(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    const done = (): void => {
      cancel()
      signal?.removeEventListener('abort', done)
      resolve()
    }
    const cancel = clock.at(clock.now() + ms, done)
    signal?.addEventListener('abort', done)
    if (signal?.aborted === true) done()
  })
}
