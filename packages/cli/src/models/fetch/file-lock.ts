import { closeSync, fstatSync, openSync, rmdirSync, statSync } from 'node:fs'
import { mkdir, rename, rmdir, stat, utimes } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { attempt, CllmError } from '@cllm/core'

/** The lifetime of a lock, and the callback for its loss. */
interface FileLockOptions {
  /** Milliseconds without a renewal after which a lock counts as left by a dead process. */
  readonly staleMs: number
  /** Called once, with the cause, when another process has taken over the lock. */
  readonly onLost: (cause: Error) => void
}

/**
 * Takes the lock `folder`, an empty folder that exists while a process holds it: creating a folder
 * is atomic on every file system, including network ones. The owner renews its modification time
 * five times within `staleMs`. It is removed on release and when the process exits; after a crash
 * it becomes stale. The idea is from `proper-lockfile`, whose signal listeners would end the process.
 *
 * @returns undefined when another process holds it
 * @throws the file system's error
 */
export async function takeFileLock(folder: string, options: FileLockOptions) {
  if (!(await isMade(folder))) {
    const time = await timeOf(folder).catch(unlessMissing)
    // A lock that was released meanwhile may be another process's by now: it is not removed.
    if (time !== undefined && !(await isStolen(folder, time, options.staleMs))) return undefined
    if (!(await isMade(folder))) return undefined
  }
  const lock = new FileLock(folder, options)
  await lock.renewed()
  return lock
}

/** A lock that this process has taken. */
class FileLock {
  /**
   * The open folder. While it is open, no other folder can have its inode, so one that another process makes is told
   * apart.
   */
  readonly #file: number
  #renewedAt = performance.now()
  #timer: NodeJS.Timeout | undefined
  #isHeld = true
  readonly #removeAtExit = (): void => {
    // It may be another process's by now, or cannot be removed while this one exits.
    if (this.isHeld()) attempt(() => rmdirSync(this.folder))
  }

  constructor(
    private readonly folder: string,
    private readonly options: FileLockOptions,
  ) {
    this.#file = openSync(folder, 'r')
    process.once('exit', this.#removeAtExit)
  }

  /** Renews it now and periodically, unless another process has taken it over. */
  async renewed(): Promise<void> {
    const { folder, options } = this
    const now = new Date()
    // This may touch another process's folder, which does no harm.
    const problem = await utimes(folder, now, now).catch((error: Error) => error)
    if (this.isHeld() && problem === undefined) this.#renewedAt = performance.now()
    else if (performance.now() - this.#renewedAt > options.staleMs) {
      this.#lose(problem ?? new Error(`${folder} cannot be read`))
    }
    if (!this.#isHeld) return
    this.#timer = setTimeout(() => void this.renewed(), options.staleMs / 5)
    this.#timer.unref()
  }

  /** Checks whether this process still holds it; if the folder is another one, or gone, it is lost. */
  isHeld(): boolean {
    if (!this.#isHeld) return false
    try {
      const { ino } = statSync(this.folder, { bigint: true })
      if (ino === fstatSync(this.#file, { bigint: true }).ino) return true
      this.#lose(new Error(`${this.folder} was taken over by another process`))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') this.#lose(error as Error)
    }
    return false
  }

  /** Releases the lock. */
  async release(): Promise<void> {
    // Another process may have taken it over since the last check, and then keeps the folder.
    const isOwn = this.isHeld()
    if (!this.#isHeld) return
    this.#end()
    if (isOwn) await rmdir(this.folder).catch(unlessMissing)
  }

  #lose(cause: Error): void {
    if (!this.#isHeld) return
    this.#end()
    this.options.onLost(cause)
  }

  #end(): void {
    this.#isHeld = false
    closeSync(this.#file)
    clearTimeout(this.#timer)
    process.off('exit', this.#removeAtExit)
  }
}

async function isMade(folder: string): Promise<boolean> {
  try {
    await mkdir(folder)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}

/** Removes a stale lock. Of processes that try at once, one succeeds; a lock that was renewed meanwhile stays. */
async function isStolen(folder: string, time: number, staleMs: number): Promise<boolean> {
  if (time >= Date.now() - staleMs) return false
  const stolen = `${folder}.${process.pid}-${Math.random().toString(36).slice(2)}`
  const moved = await rename(folder, stolen)
    .then(() => stolen)
    .catch(unlessMissing)
  if (moved === undefined) return true
  const isStale = (await timeOf(stolen)) === time
  if (!isStale) await rename(stolen, folder)
  else await rmdir(stolen)
  return isStale
}

const timeOf = async (folder: string): Promise<number> => (await stat(folder)).mtimeMs

function unlessMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}

/** How to wait for a lock and hold it. */
interface LockOptions {
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
  const onLost = (cause: Error) =>
    lost.abort(new CllmError('model_unavailable', `another process took over ${path}`, { cause }))
  const acquire = async () => await takeFileLock(`${path}.lock`, { staleMs, onLost })
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
