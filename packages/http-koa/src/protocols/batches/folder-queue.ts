import { type Clock, type Services, entryOf, pause } from '@cllm/core'
import type { FolderHold } from '../../routes/define-protocol.js'
import type { BatchFolder } from './batch-folder.js'
import type { BatchQueue, DoBatchJob, OpenBatches, QueuedJob } from './batch-store.js'
import { FolderAnswers } from './folder-answers.js'

/** Options of {@link openFolder}. */
export interface FolderQueueParts extends Pick<Services, 'clock' | 'logger'> {
  /** Takes the folder; resolves once no other process runs its batches. */
  readonly hold: () => Promise<FolderHold>
}

/**
 * The queue of work on a folder's batches, which one process does at a time. Owners take turns with their lines, so
 * that an owner who waits for a limit holds up no others; other jobs are done at once.
 */
class FolderQueue implements BatchQueue {
  readonly isForgetful = true
  /** The ids of waiting and running jobs. */
  readonly #ids = new Set<string>()
  /** Waiting lines, by owner. */
  readonly #lines = new Map<string, QueuedJob[]>()
  /** Owners whose lines are postponed. */
  readonly #paused = new Set<string>()
  /** All other jobs, which only wait while another process holds the folder. */
  readonly #others: QueuedJob[] = []
  /** Cancels the timers of delayed jobs and of postponed owners, by id. */
  readonly #timers = new Map<string, () => void>()
  readonly #running = new Set<Promise<void>>()
  #free = 0
  #hold: FolderHold | undefined
  #run: DoBatchJob = async () => undefined

  constructor(private readonly parts: FolderQueueParts) {}

  /** Whether this process may write; checked right before each write. */
  get isHeld(): boolean {
    return this.#hold?.isHeld() === true
  }

  async add(jobs: readonly QueuedJob[], owner = ''): Promise<void> {
    for (const job of jobs) {
      if (this.#ids.has(job.id)) continue
      this.#ids.add(job.id)
      if (job.data.what === 'line') entryOf(this.#lines, owner, () => []).push(job)
      else if (job.delayMs === undefined) this.#others.push(job)
      else this.#later(job.id, job.delayMs, () => this.#others.push(job))
    }
    this.#fill()
  }

  async remove(id: string): Promise<void> {
    this.#timers.get(id)?.()
    if (this.#timers.delete(id)) this.#ids.delete(id)
  }

  async process(concurrency: number, run: DoBatchJob, onBegin: () => Promise<void>): Promise<void> {
    this.#run = run
    this.#free = concurrency
    await this.#begin(onBegin)
  }

  async #begin(onBegin: () => Promise<void>): Promise<void> {
    const hold = await this.parts.hold()
    this.#hold = hold
    const lose = () => {
      this.#lose(onBegin).catch((error: unknown) => {
        this.parts.logger.error({ err: error }, 'batches cannot be run')
      })
    }
    if (hold.lost.aborted) return lose()
    hold.lost.addEventListener('abort', lose, { once: true })
    this.#fill()
    await onBegin()
  }

  /** Drops all jobs, as another process has taken the folder, and waits to get it again. */
  async #lose(onBegin: () => Promise<void>): Promise<void> {
    this.#hold = undefined
    for (const cancel of this.#timers.values()) cancel()
    for (const part of [this.#timers, this.#lines, this.#paused, this.#ids]) part.clear()
    await Promise.all(this.#running)
    await this.#begin(onBegin)
  }

  /** Starts all jobs that may run: lines as far as places are free. */
  #fill(): void {
    const hold = this.#hold
    if (hold === undefined) return
    for (const job of this.#others.splice(0)) this.#start(job, hold)
    while (this.#free > 0) {
      const next = [...this.#lines].find(([owner]) => !this.#paused.has(owner))
      if (next === undefined) return
      const [owner, jobs] = next
      const job = jobs.shift()!
      this.#lines.delete(owner)
      if (jobs.length > 0) this.#lines.set(owner, jobs)
      this.#free--
      this.#start(job, hold, owner)
    }
  }

  #start(job: QueuedJob, hold: FolderHold, owner?: string): void {
    const done = this.#do(job, hold, owner).finally(() => {
      this.#running.delete(done)
      if (owner !== undefined) this.#free++
      this.#fill()
    })
    this.#running.add(done)
  }

  async #do(job: QueuedJob, { lost, isHeld }: FolderHold, owner = ''): Promise<void> {
    const { clock, logger } = this.parts
    const { id, data } = job
    const onError = (error: unknown) =>
      logger.error({ err: error, batch: data.batch }, 'a batch stopped and is tried again')
    const run = async () => (isHeld() ? await this.#run(data, lost) : undefined)
    const ms = await tryUntilDone(run, { clock, signal: lost, onError })
    if (lost.aborted) return
    if (ms === undefined) return void this.#ids.delete(id)
    // behind the owner's other lines, as only this one may be blocked, such as by its model
    entryOf(this.#lines, owner, () => []).push(job)
    this.#paused.add(owner)
    this.#later(`paused ${owner}`, ms, () => this.#paused.delete(owner))
  }

  #later(id: string, ms: number, change: () => void): void {
    const { clock } = this.parts
    this.#timers.get(id)?.()
    const cancel = clock.at(clock.now() + ms, () => {
      this.#timers.delete(id)
      change()
      this.#fill()
    })
    this.#timers.set(id, cancel)
  }
}

/** The longest duration of an upload in milliseconds. */
const uploadMs = 3_600_000

/** Opens the batches of a folder, which this server runs while no other one does. */
export function openFolder(store: BatchFolder, parts: FolderQueueParts): OpenBatches {
  const { clock, logger } = parts
  const queue = new FolderQueue({
    ...parts,
    async hold() {
      const hold = await parts.hold()
      answers.forget()
      await store.sweep(clock.wall() - uploadMs).catch((error: unknown) => {
        logger.warn({ err: error }, 'what is left of uploads cannot be removed')
      })
      return hold
    },
  })
  const answers = new FolderAnswers(store, () => queue.isHeld)
  return { store, answers, queue }
}

/** Milliseconds before the first retry; each further pause is twice as long. */
const firstPause = 5000
const longestPause = 60_000

/** Options of {@link tryUntilDone}. */
interface TryUntilDoneParts {
  readonly clock: Clock
  /** Ends the retries. */
  readonly signal: AbortSignal
  readonly onError: (error: unknown) => void
}

/**
 * Retries work until it succeeds, as a full disk does not stay full. Returns its result, or undefined if the signal
 * fires.
 */
export async function tryUntilDone<T>(
  work: () => Promise<T>,
  { clock, signal, onError }: TryUntilDoneParts,
): Promise<T | undefined> {
  for (let ms = firstPause; !signal.aborted; ms = Math.min(2 * ms, longestPause)) {
    try {
      return await work()
    } catch (error) {
      // A stopping server leaves the work to others; this error may come from what it has already closed.
      if (signal.aborted) return undefined
      onError(error)
    }
    await pause(clock, ms, signal)
  }
  return undefined
}
