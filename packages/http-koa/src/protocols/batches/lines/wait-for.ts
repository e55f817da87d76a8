import type { Clock } from '@cllm/core'

/** Resolves after some seconds, or when the signal fires. */
export async function waitFor(clock: Clock, seconds: number, signal: AbortSignal): Promise<void> {
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
