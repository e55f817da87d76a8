import { CllmError, type Clock } from '@cllm/core'

/** What was asked for; undefined when it fails or takes longer than this many milliseconds. */
export async function inTime<T>(
  clock: Clock,
  patienceMs: number,
  asked: Promise<T>,
): Promise<T | undefined> {
  let cancel: (() => void) | undefined
  const tooLate = new Promise<never>((_resolve, reject) => {
    cancel = clock.at(clock.now() + patienceMs, () =>
      reject(new CllmError('engine_unavailable', 'The engine does not answer')),
    )
  })
  try {
    return await Promise.race([asked, tooLate])
  } catch {
    return undefined
  } finally {
    cancel?.()
  }
}
