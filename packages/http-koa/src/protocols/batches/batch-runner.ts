import { type Services, entryOf } from '@cllm/core'
import { requestId } from '@cllm/host'
import { publicError } from '../../errors/error-body.js'
import { openAiErrorBody, secondsNow } from '../openai/openai-answer.js'
import {
  type BatchObject,
  isUnderWay,
  type Kept,
  keyIsGone,
  newFile,
  outputIds,
} from './batch-objects.js'
import {
  type Added,
  type AnswerKind,
  type BatchEnd,
  type BatchJob,
  type NumberedBatchLine,
  type OpenBatches,
  type QueuedJob,
} from './batch-store.js'
import { tryUntilDone } from './folder-queue.js'
import { checkBatch, parseLine, type SendLine } from './batch-lines.js'
import { lineSeeds } from './yielding-engines.js'

/** The parts of a {@link BatchRunner}. */
export interface BatchRunnerParts extends OpenBatches, Services {
  /** Answers a line. */
  readonly send: SendLine
  /** The most lines that this process computes at a time. */
  readonly concurrency: number
}

type LineJob = Extract<BatchJob, { readonly what: 'line' }>

/** The number of lines that are added to the queue at once. */
const linesAtOnce = 500
/** A batch ends when its key has been unknown for this many milliseconds. */
const unknownMs = 30_000
/** The interval in milliseconds at which other servers' cancellations of batches in progress here are checked. */
const watchMs = 1000
/** The interval in milliseconds at which batches without a job, such as of servers that died, are looked for. */
const mendMs = 60_000

/**
 * Runs batches: each line is a job, and its answer is stored before the next line takes its place. A job whose
 * process dies is repeated, and a line that is computed twice keeps its first answer.
 */
export class BatchRunner {
  /** Lines in progress in this process, by batch. */
  readonly #computed = new Map<string, Map<AbortController, Promise<unknown>>>()
  /** Batches that this process is closing. */
  readonly #ending = new Set<string>()
  /** Since when the keys of batches are unknown in this process, by hash. */
  readonly #unknownSince = new Map<string, number>()
  #isWatching = false
  #stopMending = (): void => {}

  constructor(private readonly parts: BatchRunnerParts) {}

  /** Begins to do jobs, including those of unfinished batches. */
  async resume(): Promise<void> {
    const { queue, concurrency } = this.parts
    await queue.process(
      concurrency,
      async (job, signal) => {
        if (job.what === 'line') return await this.#compute(job, signal)
        await (job.what === 'check' ? this.#check(job.batch) : this.#close(job.batch, job.as))
        return undefined
      },
      async () => await this.#mend(),
    )
  }

  /** Runs a batch that is in the store. */
  async start(id: string): Promise<void> {
    await this.parts.queue.add([{ id: `${id}-check`, data: { batch: id, what: 'check' } }])
  }

  /**
   * Cancels an unfinished batch; its answers so far stay.
   *
   * @param errors - the reason, if no client has asked for it
   * @returns the batch afterwards, and whether it was unfinished; undefined if there is no such batch
   */
  async cancel(id: string, errors?: BatchObject['errors']) {
    let wasUnderWay = false
    const changed = await this.parts.store.update(id, (batch) => {
      wasUnderWay = isUnderWay(batch)
      if (!wasUnderWay) return undefined
      return {
        status: 'cancelling',
        cancelling_at: batch.cancelling_at ?? secondsNow(this.parts),
        errors: errors ?? batch.errors,
      }
    })
    if (wasUnderWay) await this.#stop(id)
    return changed && { batch: changed.object, wasUnderWay }
  }

  /** The batch with its current counts. */
  async live(batch: BatchObject): Promise<BatchObject> {
    if (!isUnderWay(batch)) return batch
    const counts = await this.parts.answers.counts(batch.id)
    return counts === undefined ? batch : { ...batch, request_counts: counts }
  }

  /** Starts batches whose job may have been lost; with `forgets`, also those that had begun. */
  async #mend(forgets = this.parts.queue.isForgetful): Promise<void> {
    const { store, clock, logger } = this.parts
    const onDamaged = (err: unknown) =>
      logger[forgets ? 'error' : 'debug']({ err }, 'earlier batches cannot be read')
    try {
      for (const { object } of (await store.list('batches', onDamaged)).toReversed()) {
        const { id, status } = object
        if (status === 'cancelling') await this.#stop(id)
        else if (status === 'validating' || (forgets && isUnderWay(object))) {
          await this.start(id)
        }
      }
    } catch (error) {
      onDamaged(error)
    }
    this.#stopMending()
    this.#stopMending = clock.at(clock.now() + mendMs, () => void this.#mend(false))
  }

  async #stop(id: string): Promise<void> {
    void this.#leaveLines(id)
    await this.parts.queue.add([closing(id, 'cancelled')])
  }

  /** Checks a new batch's lines, and adds a job for each. Repeated after a crash, it adds none twice. */
  async #check(id: string): Promise<void> {
    const { store, answers, queue, clock } = this.parts
    const checked = await checkBatch(id, { store, clock })
    if (checked?.object.status !== 'in_progress') return
    const { object, owner } = checked
    await answers.open(object)
    const delayMs = Math.max(0, 1000 * object.expires_at - clock.wall())
    await queue.add([{ ...closing(id, 'expired'), delayMs }])
    let jobs: QueuedJob[] = []
    for await (const { line, at, bytes } of store.lines(object.input_file_id)) {
      jobs.push({ id: `${id}-${line}`, data: { batch: id, what: 'line', line, at, bytes } })
      if (jobs.length === linesAtOnce) await queue.add(jobs.splice(0), owner?.hash)
    }
    await queue.add(jobs, owner?.hash)
  }

  /** Computes a line, unless it already has its answer; the last line ends the batch. */
  async #compute(job: LineJob, closed: AbortSignal): Promise<number | undefined> {
    const { store, answers, queue } = this.parts
    const { batch: id } = job
    const kept = await store.get('batches', id)
    if (kept?.object.status !== 'in_progress') return undefined
    const { input_file_id: input, endpoint } = kept.object
    const line = { ...parseLine(await store.textOf(input, job), endpoint), line: job.line }
    let added: 'due' | Added | number | undefined = await answers.stateOf(id, line)
    // an answer that arrives while the files are made would be in them but not in the counts
    if (added === 'due' && !this.#ending.has(id)) {
      const left = new AbortController()
      const here = entryOf(this.#computed, id, () => new Map())
      const answered = this.#answer(kept, line, AbortSignal.any([closed, left.signal]))
      here.set(left, answered)
      this.#watch()
      try {
        added = await answered
      } finally {
        left.abort() // releases the line's resources, such as counted bytes of fetched files
        here.delete(left)
        if (here.size === 0) this.#computed.delete(id)
      }
      // If this server is stopping, the job is repeated elsewhere.
      closed.throwIfAborted()
    }
    if (added === 'whole') await queue.add([closing(id, 'completed')])
    return typeof added === 'number' ? added : undefined
  }

  /** Sends a line's request and stores the answer; returns milliseconds if it must be retried after this time. */
  async #answer(
    { object: { id }, owner }: Kept<BatchObject>,
    line: NumberedBatchLine,
    signal: AbortSignal,
  ): Promise<Added | number | undefined> {
    const { send, answers, random, clock, logger } = this.parts
    const asked = send(line, owner, signal, lineSeeds(id, line.line))
    const answer = await asked.catch((error: unknown) => {
      if (signal.aborted) return undefined
      // an error is an answer, too, as for any client
      const told = publicError(error, logger)
      return { status: told.status, body: openAiErrorBody(told), retryAfter: undefined }
    })
    if (answer === undefined || signal.aborted) return undefined
    if (answer.status === 401) return await this.#endWithoutKey(id, owner?.hash ?? '')
    this.#unknownSince.delete(owner?.hash ?? '')
    if (answer.retryAfter !== undefined) return 1000 * answer.retryAfter
    const response = {
      status_code: answer.status,
      request_id: requestId(random),
      body: answer.body,
    }
    const { custom_id } = line
    const shown = { id: `batch_req_${requestId(random)}`, custom_id, response, error: null }
    const kind = answer.status < 300 ? 'completed' : 'failed'
    const onError = (error: unknown) =>
      logger.error({ err: error, batch: id }, 'an answer cannot be written')
    const add = async () => await answers.add(id, line, kind, shown)
    return await tryUntilDone(add, { clock, signal, onError })
  }

  /** Cancels a batch without a valid key, but not at once: this server may not know a new key of another one yet. */
  async #endWithoutKey(id: string, hash: string): Promise<number | undefined> {
    const now = this.parts.clock.now()
    const since = entryOf(this.#unknownSince, hash, () => now)
    if (now - since < unknownMs) return unknownMs
    await this.cancel(id, keyIsGone)
    return undefined
  }

  /** Ends a batch; meanwhile this process begins none of its lines. */
  async #close(id: string, as: BatchEnd): Promise<void> {
    this.#ending.add(id)
    await this.#leaveLines(id)
    await this.#makeFiles(id, as).finally(() => this.#ending.delete(id))
  }

  /** Makes files of a batch's answers, and ends it; repeated after a crash, it makes the same files. */
  async #makeFiles(id: string, as: BatchEnd): Promise<void> {
    const { store, answers, queue } = this.parts
    const kept = await store.get('batches', id)
    if (kept !== undefined && isUnderWay(kept.object)) {
      const now = secondsNow(this.parts)
      const counts = await answers.close(kept.object)
      // Another server has ended it meanwhile.
      if (counts === undefined) return
      const output_file_id = counts.completed > 0 ? await this.#describe(kept, 'completed') : null
      const error_file_id = counts.failed > 0 ? await this.#describe(kept, 'failed') : null
      await store.update(id, (batch) => {
        if (!isUnderWay(batch)) return undefined
        // It may have been cancelled meanwhile.
        const status = batch.status === 'cancelling' ? 'cancelled' : as
        return {
          status,
          [`${status}_at`]: now,
          ...(status === 'completed' && { finalizing_at: now }),
          output_file_id,
          error_file_id,
          request_counts: counts,
        }
      })
    }
    await answers.remove(id)
    if (as !== 'expired') await queue.remove(closing(id, 'expired').id)
  }

  /** Stores the record of a file with answers, and returns its id. */
  async #describe({ owner, object }: Kept<BatchObject>, kind: AnswerKind): Promise<string> {
    const { store } = this.parts
    const id = outputIds(object.id)[kind]
    const name = `${object.id}_${kind === 'completed' ? 'output' : 'error'}.jsonl`
    const file = newFile(this.parts, name, await store.sizeOf(id), { id, purpose: 'batch_output' })
    await store.put('files', { ...(owner && { owner }), object: file })
    return id
  }

  /** Aborts the lines of a batch that are in progress here; resolves when all have ended. */
  async #leaveLines(id: string): Promise<void> {
    const here = this.#computed.get(id) ?? new Map<AbortController, Promise<unknown>>()
    for (const left of here.keys()) left.abort()
    await Promise.allSettled(here.values())
  }

  /** Checks from time to time whether other servers have ended batches with lines in progress here. */
  #watch(): void {
    const { clock, logger, queue } = this.parts
    if (this.#isWatching || queue.isForgetful) return
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
    for (const id of this.#computed.keys()) {
      const kept = await this.parts.store.get('batches', id)
      if (kept?.object.status !== 'in_progress') void this.#leaveLines(id)
    }
  }
}

const closing = (batch: string, as: BatchEnd): QueuedJob => ({
  id: `${batch}-${as}`,
  data: { batch, what: 'close', as },
})
