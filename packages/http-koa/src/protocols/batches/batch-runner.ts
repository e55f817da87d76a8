import type { Clock, Logger, Random } from '@cllm/core'
import { requestId } from '@cllm/host'
import type { BatchFolder } from './batch-folder.js'
import { type BatchObject, isUnderWay, type Kept } from './batch-objects.js'
import { cancelBatch, keyIsGone } from './cancel-batch.js'
import { Places } from './lines/places.js'
import { checkBatch, parseLine } from './lines/check-lines.js'
import { answerLine } from './lines/answer-line.js'
import type { BatchLine, SendLine } from './lines/line-sender.js'
import type { BatchJobs } from './batch-store.js'
import { type BatchOutput, openOutput, outputIds } from './batch-output.js'
import type { FolderHold } from '../../routes/define-protocol.js'
import { tryUntilDone } from './try-until-done.js'

/** What a {@link BatchRunner} needs. */
export interface BatchRunnerParts {
  readonly folder: BatchFolder
  readonly send: SendLine
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  /** Lines that are computed at a time. */
  readonly concurrency: number
  /** Resolves when no other process runs the folder's batches. */
  readonly hold: () => Promise<FolderHold>
}

/** An upload takes no longer than these milliseconds. */
const uploadMs = 3_600_000

/**
 * Runs batches, those of a key one after the other: one that waits for its key's limits holds up no
 * others. Each line's answer is on disk before the next of its worker is
 * asked, so that a batch goes on where it was after a crash, and no line has two answers.
 */
export class BatchRunner implements BatchJobs {
  /** The last batch of each key, by its hash. */
  readonly #last = new Map<string, Promise<void>>()
  readonly #stops = new Map<string, AbortController>()
  readonly #outputs = new Map<string, BatchOutput>()

  readonly #places: Places
  /** Batches that were made before this process may run any. */
  #early: string[] | undefined = []
  /** Its signal fires when another process runs them. */
  #hold: FolderHold = { lost: new AbortController().signal, isHeld: () => true }

  constructor(private readonly parts: BatchRunnerParts) {
    this.#places = new Places(parts.concurrency)
  }

  /** Goes on with what an earlier process has left, once that one has ended. */
  async resume(): Promise<void> {
    this.#hold = await this.parts.hold()
    const { lost } = this.#hold
    lost.addEventListener('abort', () => void this.#holdAnew(), { once: true })
    const { folder, logger } = this.parts
    // those of before may be lost, those of now are not
    const all = await folder.list('batches').catch((error: unknown) => {
      logger.error({ err: error }, 'batches of before cannot be read')
    })
    const left = (all ?? []).toReversed().filter(({ object }) => isUnderWay(object))
    if (all !== undefined && !lost.aborted) await this.#sweep(left)
    if (lost.aborted) return
    const ids = new Set([...left.map(({ object }) => object.id), ...(this.#early ?? [])])
    this.#early = undefined
    for (const id of ids) await this.start(id)
  }

  /** Removes what a crash has left of uploads, which takes place on the disk. */
  async #sweep(left: readonly Kept<BatchObject>[]): Promise<void> {
    const { folder, clock, logger } = this.parts
    const used = left.flatMap(({ object }) => Object.values(outputIds(object.id)))
    try {
      await folder.sweep(new Set(used), clock.now() - uploadMs)
    } catch (error) {
      logger.warn({ err: error }, 'what is left of uploads cannot be removed')
    }
  }

  /** Runs a batch when those of its key before it have ended. */
  async start(id: string): Promise<void> {
    if (this.#early !== undefined) {
      this.#early.push(id)
      return
    }
    const hold = this.#hold
    this.#stops.set(id, new AbortController())
    const { folder, clock, logger } = this.parts
    // one whose key cannot be read now is run all the same
    const kept = await folder.get('batches', id).catch(() => {})
    const hash = kept?.owner?.hash ?? ''
    const before = this.#last.get(hash) ?? Promise.resolve()
    const ended = before.then(async () => {
      const onError = (error: unknown) =>
        logger.error({ err: error, batch: id }, 'a batch stopped and is tried again')
      const { lost: signal } = hold
      await tryUntilDone(() => this.#run(id, hold), { clock, signal, onError })
      this.#stops.delete(id)
      this.#outputs.delete(id)
      if (this.#last.get(hash) === ended) this.#last.delete(hash)
    })
    this.#last.set(hash, ended)
  }

  /** Ends a batch's lines that are computed, and leaves out the others. */
  stop(id: string): void {
    this.#stops.get(id)?.abort()
  }

  /** The batch with what is counted now. */
  live(batch: BatchObject): BatchObject {
    const output = this.#outputs.get(batch.id)
    return output === undefined
      ? batch
      : { ...batch, request_counts: { ...batch.request_counts, ...output.counts } }
  }

  /** Another process has the batches: they end here as they are, until that one ends. */
  async #holdAnew(): Promise<void> {
    this.#early = []
    await Promise.all(this.#last.values())
    await this.resume().catch((error: unknown) => {
      this.parts.logger.error({ err: error }, 'batches cannot be run')
    })
  }

  async #run(id: string, { lost, isHeld }: FolderHold): Promise<void> {
    if (!isHeld()) return
    const stopped = this.#stops.get(id)!.signal
    const { folder, random, clock } = this.parts
    const checked = await checkBatch(id, { store: folder, clock })
    if (checked === undefined || !isHeld()) return
    const output = await openOutput(folder, checked, { random, isHeld })
    this.#outputs.set(id, output)
    const { object } = checked
    const lines = this.#left(object, output)
    const over = new AbortController()
    const signal = AbortSignal.any([stopped, over.signal, lost])
    const worker = async () => {
      for await (const line of lines) {
        if (signal.aborted || this.#seconds() >= object.expires_at) return
        await this.#answer(line, checked, output, signal)
      }
    }
    const isCancelled = object.status === 'cancelling'
    if (!isCancelled) {
      const stopClock = clock.at(1000 * object.expires_at, () => over.abort())
      const workers = Array.from({ length: this.parts.concurrency }, worker)
      try {
        await Promise.all(workers)
      } finally {
        stopClock()
        over.abort()
        // None still computes a line when the batch is tried again.
        await Promise.allSettled(workers)
      }
    }
    if (!isHeld()) return
    await this.#finish(id, output, stopped.aborted || isCancelled)
  }

  async *#left({ input_file_id: input, endpoint }: BatchObject, output: BatchOutput) {
    for await (const { text } of this.parts.folder.lines(input)) {
      const line = parseLine(text, endpoint)
      if (!output.has(line.custom_id)) yield line
    }
  }

  async #answer(
    line: BatchLine,
    { owner, object }: Kept<BatchObject>,
    output: BatchOutput,
    signal: AbortSignal,
  ): Promise<void> {
    const { folder: store, clock, logger } = this.parts
    // A line that waits for its key's limits leaves its place to others.
    const send: SendLine = async (...asked) =>
      await this.#places.take(async () => await this.parts.send(...asked))
    const answer = await answerLine(line, owner, { send, clock, logger, signal })
    if (answer?.status === 401)
      await cancelBatch(object.id, { store, jobs: this, clock }, keyIsGone)
    else if (answer !== undefined) {
      const onError = (error: unknown) =>
        logger.error({ err: error, batch: object.id }, 'an answer cannot be written')
      await tryUntilDone(() => output.add(line, answer), { clock, signal, onError })
    }
  }

  async #finish(id: string, output: BatchOutput, isCancelled: boolean): Promise<void> {
    const { folder } = this.parts
    const now = this.#seconds()
    const files = await output.close(now)
    await folder.update(id, ({ status, request_counts: before }) => {
      const counts = { request_counts: { ...before, ...output.counts } }
      // What is cancelled while it ends is cancelled.
      const end: Partial<BatchObject> =
        isCancelled || status === 'cancelling'
          ? { status: 'cancelled', cancelled_at: now }
          : output.size >= before.total
            ? { status: 'completed', completed_at: now, finalizing_at: now }
            : { status: 'expired', expired_at: now }
      return { ...end, ...files, ...counts }
    })
  }

  #seconds(): number {
    return Math.floor(this.parts.clock.now() / 1000)
  }
}

/** A new id of a file or a batch. */
export const newId = (kind: 'file-' | 'batch_', random: Random): string =>
  `${kind}${requestId(random)}`
