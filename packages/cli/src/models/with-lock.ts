import { setTimeout as delay } from 'node:timers/promises'
import { CllmError } from '@cllm/core'
import { lock } from 'proper-lockfile'

/** How a lock is waited for and kept. */
export interface LockOptions {
  readonly signal: AbortSignal
  /** Called once when another process has it. */
  readonly onWait?: () => void
  /** A lock whose owner has not renewed it for so long belongs to a dead process. Default 10,000 ms. */
  readonly staleMs?: number | undefined
}

/**
 * Runs `action` while no other process holds the lock on `path` (a folder `path.lock` beside it).
 * The action's signal is aborted when the lock is lost, which happens when the machine slept and
 * another process took over.
 */
export async function withLock<T>(
  path: string,
  options: LockOptions,
  action: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const { signal, onWait, staleMs = 10_000 } = options
  const lost = new AbortController()
  const acquire = () =>
    lock(path, {
      realpath: false, // the file is still to come
      stale: staleMs,
      update: staleMs / 5,
      onCompromised: (cause) =>
        lost.abort(
          new CllmError('model_unavailable', `another process took over ${path}`, { cause }),
        ),
    }).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ELOCKED') return undefined
      throw error
    })
  let release = await acquire()
  if (release === undefined) onWait?.()
  while (release === undefined) {
    await delay(200, undefined, { signal })
    release = await acquire()
  }
  try {
    return await action(AbortSignal.any([signal, lost.signal]))
  } finally {
    if (!lost.signal.aborted) await release()
  }
}
