import type { Readable } from 'node:stream'
import type { BatchObject, FileObject, Kept } from './batch-objects.js'
import type { JsonObject } from '../../fields/fields.js'

/** Files, or batches. */
export type BatchKind = 'files' | 'batches'

/** The stored record of a file or a batch. */
export type Stored<K extends BatchKind> = Kept<K extends 'files' ? FileObject : BatchObject>

/** The position of a line's bytes in its file. */
export type LinePlace = Pick<PlacedLine, 'at' | 'bytes'>

/** The store of files and batches. */
export interface BatchStore {
  /** Stores a new file. */
  create(kept: Kept<FileObject>, content: Uint8Array): Promise<void>
  /** Stores the record of a file or a batch, in place of an earlier one. */
  put<K extends BatchKind>(kind: K, kept: Stored<K>): Promise<void>
  /** The record of a file or a batch, or undefined. */
  get<K extends BatchKind>(kind: K, id: string): Promise<Stored<K> | undefined>
  /** All records that can be read, the newest first; `onDamaged` gets an error for each damaged one. */
  list<K extends BatchKind>(kind: K, onDamaged?: (error: Error) => void): Promise<Stored<K>[]>
  /** Changes a batch, unless `change` returns undefined; returns the record afterwards. */
  update(
    id: string,
    change: (batch: BatchObject) => Partial<BatchObject> | undefined,
  ): Promise<Kept<BatchObject> | undefined>
  /** Removes a file or the record of a batch; with `isWhole` false, only the record of a file and not its content. */
  remove(id: string, isWhole?: boolean): Promise<void>
  /** The content of a file. */
  content(id: string): Readable
  /** The size of a file's content in bytes. */
  sizeOf(id: string): Promise<number>
  /** The lines of a file, with their numbers from 1; empty lines are left out. */
  lines(id: string): AsyncIterable<PlacedLine>
  /** The text of a line. */
  textOf(id: string, place: LinePlace): Promise<string>
}

/** An `onDamaged` of {@link BatchStore.list} for callers that need all records. */
export function rethrow(error: Error): never {
  throw error
}

/** A line of a batch, with its number in the file. */
export interface NumberedBatchLine {
  readonly line: number
  readonly custom_id: string
  readonly method: 'POST'
  readonly url: string
  readonly body: JsonObject
}

/** How a line ended; each kind has a file of answers. */
export type AnswerKind = 'completed' | 'failed'

/** A batch after an answer was added: `whole` after the last one; `closed`: it takes no more answers. */
export type Added = 'open' | 'whole' | 'closed'

/** The answers to the lines of batches, one per line even if it is computed repeatedly. */
export interface BatchAnswers {
  /** Begins to take a batch's answers; a second call has no effect. */
  open(batch: BatchObject): Promise<void>
  /** `due` if a line needs an answer; otherwise the result that {@link BatchAnswers.add} would have. */
  stateOf(batch: string, line: NumberedBatchLine): Promise<'due' | Added>
  /** Adds the answer of a line that does not have one. */
  add(batch: string, line: NumberedBatchLine, kind: AnswerKind, answer: object): Promise<Added>
  /** The number of answers; undefined before `open` and after `remove`. */
  counts(batch: string): Promise<BatchObject['request_counts'] | undefined>
  /** Makes files of the answers and returns their number; undefined: another server has ended the batch meanwhile. */
  close(batch: BatchObject): Promise<BatchObject['request_counts'] | undefined>
  /** Forgets the answers of a batch whose files are made, and takes no more. */
  remove(batch: string): Promise<void>
}

/** How a batch ends. */
export type BatchEnd = 'completed' | 'expired' | 'cancelled'

/** A piece of the work on a batch. */
export type BatchJob = { readonly batch: string } & (
  | { readonly what: 'check' }
  | ({ readonly what: 'line' } & Pick<PlacedLine, 'line' | 'at' | 'bytes'>)
  | { readonly what: 'close'; readonly as: BatchEnd }
)

/** A waiting job. */
export interface QueuedJob {
  /** While the queue has a job with this id, no other one is added. */
  readonly id: string
  readonly data: BatchJob
  /** Milliseconds that it waits at least. Default: 0. */
  readonly delayMs?: number
}

/**
 * Does a job; the signal fires when this server may no longer do jobs. A job that throws is retried. A job that returns
 * milliseconds is retried after this time, and gives its place to another one meanwhile.
 */
export type DoBatchJob = (job: BatchJob, signal: AbortSignal) => Promise<number | undefined>

/** The queue of work on batches. Each job is done at least once. */
export interface BatchQueue {
  /** Whether jobs are lost when this process ends. Otherwise other servers do them, too. */
  readonly isForgetful: boolean
  /**
   * Adds jobs, unless the queue already has them.
   *
   * @param owner - the owner of the jobs: while one job is postponed, so are the owner's others
   */
  add(jobs: readonly QueuedJob[], owner?: string): Promise<void>
  /** Removes a job unless it is running. */
  remove(id: string): Promise<void>
  /**
   * Does jobs in this process, up to `concurrency` at a time.
   *
   * @param onBegin - called each time that this process gets the right to do jobs
   */
  process(concurrency: number, run: DoBatchJob, onBegin: () => Promise<void>): Promise<void>
}

/** The files and batches of one server or of several together, with their answers and the queue of work. */
export interface OpenBatches {
  readonly store: BatchStore
  readonly answers: BatchAnswers
  readonly queue: BatchQueue
}

/** A line of a file and the position of its bytes. */
export interface PlacedLine {
  /** From 1; empty lines count. */
  readonly line: number
  readonly text: string
  readonly at: number
  readonly bytes: number
}

const newline = '\n'.charCodeAt(0)

/**
 * Splits content into lines, with their numbers from 1; empty lines are left out. Only `\n` ends a line, with or
 * without `\r`, as the other line ends of Node's readline may occur within JSON.
 */
export async function* splitLines(content: AsyncIterable<Uint8Array>): AsyncGenerator<PlacedLine> {
  let [line, at] = [0, 0]
  let begun: Uint8Array[] = []
  const ended = (): PlacedLine => {
    const bytes = Buffer.concat(begun)
    const text = bytes.toString('utf8').replace(/\r$/, '')
    return { line: ++line, text, at, bytes: bytes.length }
  }
  for await (const piece of content) {
    let from = 0
    for (let end: number; (end = piece.indexOf(newline, from)) >= 0; from = end + 1) {
      begun.push(piece.subarray(from, end))
      const next = ended()
      begun = []
      at += next.bytes + 1
      if (next.text.trim() !== '') yield next
    }
    begun.push(piece.subarray(from))
  }
  const last = ended()
  if (last.text.trim() !== '') yield last
}
