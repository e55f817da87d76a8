import { type Clock, CllmError, type Logger, type Random, requestId } from '@cllm/core'
import type { BatchFolder } from './batch-folder.js'
import { type BatchObject, isUnderWay, type Kept } from './batch-objects.js'
import { checkLines, parseLine } from './lines/check-lines.js'
import { answerLine } from './lines/answer-line.js'
import type { BatchLine, SendLine } from './lines/line-sender.js'
import type { BatchJobs } from './batch-store.js'
import { type BatchOutput, openOutput } from './batch-output.js'

/** What a {@link BatchRunner} needs. */
export interface BatchRunnerParts {
  readonly folder: BatchFolder
  readonly send: SendLine
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  /** Lines that are computed at a time. */
  readonly concurrency: number
}

/**
 * Runs batches, one after the other. Each line's answer is on disk before the next of its worker is
 * asked, so that a batch goes on where it was after a crash, and no line has two answers.
 */
export class BatchRunner implements BatchJobs {
  #last: Promise<void> = Promise.resolve()
  readonly #stops = new Map<string, AbortController>()
  readonly #outputs = new Map<string, BatchOutput>()

  constructor(private readonly parts: BatchRunnerParts) {}

  /** Goes on with what an earlier process has left. */
  async resume(): Promise<void> {
    const all = await this.parts.folder.list('batches')
    for (const { object } of all.toReversed()) if (isUnderWay(object)) this.start(object.id)
  }

  /** Runs a batch when those before it have ended. */
  start(id: string): void {
    this.#stops.set(id, new AbortController())
    this.#last = this.#last.then(async () => {
      try {
        await this.#run(id)
      } catch (error) {
        this.parts.logger.error({ err: error, batch: id }, 'a batch stopped')
      } finally {
        this.#stops.delete(id)
        this.#outputs.delete(id)
      }
    })
  }

  /** Ends a batch's lines that are computed, and leaves out the others. */
  stop(id: string): void {
    this.#stops.get(id)?.abort()
  }

  /** Resolves when there is nothing to run. */
  async idle(): Promise<void> {
    await this.#last
  }

  /** The batch with what is counted now. */
  live(batch: BatchObject): BatchObject {
    const output = this.#outputs.get(batch.id)
    return output === undefined
      ? batch
      : { ...batch, request_counts: { ...batch.request_counts, ...output.counts } }
  }

  async #run(id: string): Promise<void> {
    const signal = this.#stops.get(id)!.signal
    const checked = await this.#check(id)
    if (checked === undefined) return
    const { folder, random } = this.parts
    const output = await openOutput(folder, checked, random)
    this.#outputs.set(id, output)
    const { object } = checked
    const lines = this.#left(object, output)
    const worker = async () => {
      for await (const line of lines) {
        if (signal.aborted || this.#seconds() >= object.expires_at) return
        await this.#answer(line, checked, output, signal)
      }
    }
    const isCancelled = object.status === 'cancelling'
    if (!isCancelled) {
      await Promise.all(Array.from({ length: this.parts.concurrency }, worker))
    }
    await this.#finish(id, output, signal.aborted || isCancelled)
  }

  /** Checks a new batch's lines; undefined where it ends with that. */
  async #check(id: string): Promise<Kept<BatchObject> | undefined> {
    const { folder } = this.parts
    const kept = await folder.get('batches', id)
    if (kept === undefined || kept.object.status !== 'validating') return kept
    const { input_file_id: input, endpoint } = kept.object
    const { total, errors } = await checkLines(folder.lines(input), endpoint)
    const now = this.#seconds()
    const counts = { total, completed: 0, failed: 0 }
    const change: Partial<BatchObject> =
      errors.length > 0
        ? { status: 'failed', failed_at: now, errors: { object: 'list', data: errors } }
        : { status: 'in_progress', in_progress_at: now, request_counts: counts }
    const { object } = (await folder.get('batches', id)) ?? kept
    // It was cancelled meanwhile.
    if (object.status !== 'validating') return { ...kept, object }
    const changed = { ...kept, object: { ...object, ...change } }
    await folder.put('batches', changed)
    return errors.length > 0 ? undefined : changed
  }

  async *#left({ input_file_id: input, endpoint }: BatchObject, output: BatchOutput) {
    for await (const { text } of this.parts.folder.lines(input)) {
      const line = parseLine(text, endpoint)
      if (!output.has(line.custom_id)) yield line
    }
  }

  async #answer(
    line: BatchLine,
    { owner }: Kept<BatchObject>,
    output: BatchOutput,
    signal: AbortSignal,
  ): Promise<void> {
    const { send, clock } = this.parts
    const answer = await answerLine(line, owner, { send, clock, signal })
    if (answer !== undefined) await output.add(line, answer)
  }

  async #finish(id: string, output: BatchOutput, isCancelled: boolean): Promise<void> {
    const { folder } = this.parts
    const kept = await folder.get('batches', id)
    if (kept === undefined) throw new CllmError('internal', `the batch ${id} is gone`)
    const now = this.#seconds()
    const { object } = kept
    const isWhole = output.size >= object.request_counts.total
    const end: Partial<BatchObject> = isCancelled
      ? { status: 'cancelled', cancelled_at: now }
      : isWhole
        ? { status: 'completed', completed_at: now, finalizing_at: now }
        : { status: 'expired', expired_at: now }
    const files = await output.close(now)
    const counts = { ...object.request_counts, ...output.counts }
    await folder.put('batches', {
      ...kept,
      object: { ...object, ...end, ...files, request_counts: counts },
    })
  }

  #seconds(): number {
    return Math.floor(this.parts.clock.now() / 1000)
  }
}

/** A new id of a file or a batch. */
export const newId = (kind: 'file-' | 'batch_', random: Random): string =>
  `${kind}${requestId(random)}`
