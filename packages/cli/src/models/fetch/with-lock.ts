import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { CllmError } from '@cllm/core'
import type { FetchOptions } from './fetch-progress.js'
import { takeFileLock } from './file-lock.js'

/** How to wait for a lock and hold it. */
export interface LockOptions {
  readonly signal: AbortSignal
  /** Called once when another process holds the lock. */
  readonly onWait?: () => void
  /** Milliseconds without a renewal after which a lock counts as stale. Default 10,000. */
  readonly staleMs?: number | undefined
}

/**
 * Runs `action` while no other process holds the lock on `path` (a folder `path.lock` beside it).
 * Aborts the action's signal when the lock is lost, which happens when the machine slept and
 * another process took over.
 */
export async function withLock<T>(
  path: string,
  options: LockOptions,
  action: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const { signal, onWait, staleMs = 10_000 } = options
  const lost = new AbortController()
  const acquire = async () =>
    await takeFileLock(`${path}.lock`, {
      staleMs,
      onLost: (cause) =>
        lost.abort(
          new CllmError('model_unavailable', `another process took over ${path}`, { cause }),
        ),
    })
  let lock = await acquire()
  if (lock === undefined) onWait?.()
  while (lock === undefined) {
    await delay(200, undefined, { signal })
    lock = await acquire()
  }
  try {
    return await action(AbortSignal.any([signal, lost.signal]))
  } finally {
    await lock.release()
  }
}

/** Of a fetch, what {@link fetchOnce} works with. */
type FetchOnceOptions = Pick<FetchOptions, 'cacheFolder' | 'signal' | 'onProgress' | 'lockStaleMs'>

/**
 * The path that `find` knows, or that `fetch` brings while no other process fetches the same. What processes that
 * were killed left of it is removed first.
 *
 * @param path - what is locked, in the folder for downloads
 * @param model - the model, as it is shown
 */
export async function fetchOnce<Options extends FetchOnceOptions>(
  path: string,
  model: string,
  options: Options,
  find: () => Promise<string | undefined>,
  fetch: (options: Options) => Promise<string>,
): Promise<string> {
  const present = await find()
  if (present !== undefined) return present
  const { cacheFolder, signal, onProgress, lockStaleMs: staleMs } = options
  await mkdir(cacheFolder, { recursive: true })
  const onWait = () => onProgress({ kind: 'waiting', model })
  return await withLock(path, { signal, onWait, staleMs }, async (signal) => {
    const fetched = await find() // by another process meanwhile
    if (fetched !== undefined) return fetched
    for (const name of await readdir(dirname(path))) {
      if (name.startsWith(basename(path) + partial)) await remove(join(dirname(path), name))
    }
    const file = await fetch({ ...options, signal })
    onProgress({ kind: 'done', model, path: file })
    return file
  })
}

const partial = '.partial-'

const remove = async (path: string) => await rm(path, { recursive: true, force: true })

/** Runs `action` with a new folder beside `path` for what is not whole yet, which then goes. */
export async function withPartial<T>(path: string, action: (folder: string) => Promise<T>) {
  const folder = await mkdtemp(`${path}${partial}${process.pid}-`)
  try {
    return await action(folder)
  } finally {
    await remove(folder)
  }
}
