import { createHash } from 'node:crypto'
import { type Job, JobLater, type JobQueue, type SharedResults } from '@cllm/cluster'
import type { Clock } from '@cllm/core'
import { requestId } from '@cllm/host'
import {
  answerLine,
  type BatchJobs,
  type BatchJobsParts,
  type BatchObject,
  cancelBatch,
  checkBatch,
  isUnderWay,
  keyIsGone,
  type Kept,
  parseLine,
  type PlacedLine,
  withSeed,
} from '@cllm/http-koa'
import { closeBatch, type BatchEnd } from './close-batch.js'
import type { SharedBatchStore } from './shared-batch-store.js'

/** What fronts do for each other. */
export type BatchJob = { readonly batch: string } & (
  | { readonly what: 'check' }
  | ({ readonly what: 'line' } & Pick<PlacedLine, 'line' | 'at' | 'bytes'>)
  | { readonly what: 'close'; readonly as: BatchEnd }
)

/** What the batches of a cluster are run with. */
export interface SharedBatchJobsParts extends BatchJobsParts {
  readonly store: SharedBatchStore
  readonly results: SharedResults
  readonly queue: JobQueue<BatchJob>
}

/** Lines that are queued at once. */
const linesAtOnce = 500
/** A batch ends when its key has been unknown for this many milliseconds. */
const unknownMs = 30_000
/** Milliseconds between two looks whether batches with computed lines are cancelled. */
const watchMs = 1000
/** Milliseconds between two looks for batches that lost their first or last job. */
const mendMs = 60_000

/**
 * Runs the batches of a cluster together with its other fronts: each line is a job that any of them does.
 * A job whose front dies is done by another one; a line that is computed twice keeps its first answer.
 */
export class SharedBatchJobs implements BatchJobs {
  /** Lines that are computed here, by their batch. */
  readonly #computed = new Map<string, Set<AbortController>>()
  /** Since when keys of batches are unknown here, by their hashes. */
  readonly #unknownSince = new Map<string, number>()
  #isWatching = false

  constructor(private readonly parts: SharedBatchJobsParts) {}

  async resume(): Promise<void> {
    const { queue, concurrency } = this.parts
    await queue.process(concurrency, async ({ data }, signal) => {
      if (data.what === 'check') await this.#check(data.batch)
      else if (data.what === 'line') await this.#compute(data, signal)
      else await this.#close(data.batch, data.as)
    })
    await this.#mend()
  }

  /** A front or the server may have died between the record of a batch and its job. */
  async #mend(): Promise<void> {
    const { store, clock, logger } = this.parts
    try {
      for (const { object } of await store.list('batches')) {
        if (object.status === 'validating') await this.start(object.id)
        else if (object.status === 'cancelling') await this.stop(object.id)
      }
    } catch (error) {
      logger.debug({ err: error }, 'the batches are unknown')
    }
    clock.at(clock.now() + mendMs, () => void this.#mend())
  }

  async start(id: string): Promise<void> {
    await this.parts.queue.add([{ id: `${id}-check`, data: { batch: id, what: 'check' } }])
  }

  async stop(id: string): Promise<void> {
    this.#abort(id)
    await this.parts.queue.add([closing(id, 'cancelled')])
  }

  async live(batch: BatchObject): Promise<BatchObject> {
    if (!isUnderWay(batch)) return batch
    const counts = await this.parts.results.counts(batch.id)
    return counts === undefined ? batch : { ...batch, request_counts: counts }
  }

  /** Checks a new batch's lines, and makes a job of each. Done again after a crash, it makes none twice. */
  async #check(id: string): Promise<void> {
    const { store, results, queue, clock } = this.parts
    const onCounted = async (total: number) => await results.open(id, total)
    const checked = await checkBatch(id, { store, clock, onCounted })
    if (checked?.object.status !== 'in_progress') return
    const { input_file_id: input } = checked.object
    const delayMs = Math.max(0, 1000 * checked.object.expires_at - clock.now())
    await queue.add([{ ...closing(id, 'expired'), delayMs }])
    let jobs: Job<BatchJob>[] = []
    for await (const { line, at, bytes } of store.lines(input)) {
      jobs.push({ id: `${id}-${line}`, data: { batch: id, what: 'line', line, at, bytes } })
      if (jobs.length === linesAtOnce) await queue.add(jobs.splice(0))
    }
    await queue.add(jobs)
  }

  async #close(id: string, as: BatchEnd): Promise<void> {
    await closeBatch(id, as, this.parts)
    if (as !== 'expired') await this.parts.queue.remove(closing(id, 'expired').id)
  }

  async #compute(job: BatchJob & { readonly what: 'line' }, signal: AbortSignal): Promise<void> {
    const { store, results, queue } = this.parts
    const { batch: id, line } = job
    const kept = await store.get('batches', id)
    if (kept?.object.status !== 'in_progress') return
    let added = (await results.has(id, line)) ? await results.state(id) : undefined
    added ??= await this.#answer(kept, job, signal)
    if (added === 'whole') await queue.add([closing(id, 'completed')])
  }

  async #answer(
    { object, owner }: Kept<BatchObject>,
    job: BatchJob & { readonly what: 'line' },
    closed: AbortSignal,
  ) {
    const { store, results, random, send, clock, logger } = this.parts
    const { id, input_file_id: input, endpoint } = object
    const line = parseLine(await store.textOf(input, job), endpoint)
    const cancelled = this.#begin(id)
    const signal = AbortSignal.any([closed, cancelled.signal])
    try {
      const answer = await withSeed(seedOf(id, job.line), async () =>
        answerLine(line, owner, { send, clock, logger, signal, wait: leavePlace }),
      )
      // Another front does it, where this one ends.
      closed.throwIfAborted()
      if (answer === undefined) return undefined
      if (answer.status === 401) {
        await this.#endWithoutKey(id, owner?.hash ?? '')
        return undefined
      }
      this.#unknownSince.delete(owner?.hash ?? '')
      const { status: status_code, body } = answer
      const response = { status_code, request_id: requestId(random), body }
      const { custom_id } = line
      const text = { id: `batch_req_${requestId(random)}`, custom_id, response, error: null }
      const kind = status_code < 300 ? 'completed' : 'failed'
      return await results.add(id, job.line, kind, JSON.stringify(text))
    } finally {
      this.#computed.get(id)?.delete(cancelled)
    }
  }

  /** A key that another front has made a moment ago may be unknown here. */
  async #endWithoutKey(id: string, hash: string): Promise<void> {
    const { store, clock } = this.parts
    const now = clock.now()
    const since = this.#unknownSince.get(hash) ?? now
    this.#unknownSince.set(hash, since)
    if (now - since < unknownMs) throw new JobLater(unknownMs)
    await cancelBatch(id, { store, jobs: this, clock }, keyIsGone)
  }

  #begin(id: string): AbortController {
    const controller = new AbortController()
    const all = this.#computed.get(id) ?? new Set()
    this.#computed.set(id, all.add(controller))
    this.#watch()
    return controller
  }

  #abort(id: string): void {
    for (const controller of this.#computed.get(id) ?? []) controller.abort()
  }

  /** Another front may cancel a batch whose lines are computed here. */
  #watch(): void {
    const { clock, logger } = this.parts
    if (this.#isWatching) return
    this.#isWatching = true
    clock.at(clock.now() + watchMs, () => {
      this.#look()
        .catch((error: unknown) => logger.debug({ err: error }, 'the batches are unknown'))
        .finally(() => {
          this.#isWatching = false
          if (this.#computed.size > 0) this.#watch()
        })
    })
  }

  async #look(): Promise<void> {
    for (const [id, controllers] of this.#computed) {
      if (controllers.size === 0) this.#computed.delete(id)
      else {
        const kept = await this.parts.store.get('batches', id)
        if (kept?.object.status !== 'in_progress') this.#abort(id)
      }
    }
  }
}

/** A line whose key has reached a limit, or that the server is too busy for, leaves its place to others. */
const leavePlace = async (_clock: Clock, seconds: number): Promise<void> => {
  throw new JobLater(1000 * seconds)
}

const closing = (batch: string, as: BatchEnd): Job<BatchJob> => ({
  id: `${batch}-${as}`,
  data: { batch, what: 'close', as },
})

/** The same at each time that a line is computed. */
function seedOf(batch: string, line: number): number {
  return createHash('sha256').update(`${batch}:${line}`).digest().readUInt32LE()
}
