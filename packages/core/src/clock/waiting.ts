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

/**
 * The answer, or what `late` gives when it has not come by then. An answer that comes later is not heard, and its
 * failure neither.
 *
 * @param ms - milliseconds from now
 * @throws what the answer or `late` throws
 */
export async function within<T, Late>(
  clock: Clock,
  ms: number,
  answer: Promise<T>,
  late: () => Late | Promise<Late>,
): Promise<T | Late> {
  let cancel = (): void => {}
  const tooLate = new Promise<void>((resolve) => (cancel = clock.at(clock.now() + ms, resolve)))
  return await Promise.race([answer, tooLate.then(late)]).finally(cancel)
}
