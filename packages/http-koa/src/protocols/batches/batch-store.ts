import type { Readable } from 'node:stream'
import type { BatchObject, FileObject, Kept } from './batch-objects.js'
import type { JsonObject } from '../../fields/fields.js'

/** Files, or batches. */
export type BatchKind = 'files' | 'batches'

/** What is kept of one of a kind. */
export type Stored<K extends BatchKind> = Kept<K extends 'files' ? FileObject : BatchObject>

/** Where the bytes of a line are in its file. */
export type LinePlace = Pick<PlacedLine, 'at' | 'bytes'>

/** Where files and batches are kept. */
export interface BatchStore {
  /** Stores a new file. */
  create(kept: Kept<FileObject>, content: Uint8Array): Promise<void>
  /** Stores what is known of one, in place of what was. */
  put<K extends BatchKind>(kind: K, kept: Stored<K>): Promise<void>
  /** What is known of one, or undefined. */
  get<K extends BatchKind>(kind: K, id: string): Promise<Stored<K> | undefined>
  /** All of them that can be read, the newest first; each that is damaged is told. */
  list<K extends BatchKind>(kind: K, onDamaged?: (error: Error) => void): Promise<Stored<K>[]>
  /** Changes a batch, unless `change` returns undefined; returns it as it is then. */
  update(
    id: string,
    change: (batch: BatchObject) => Partial<BatchObject> | undefined,
  ): Promise<Kept<BatchObject> | undefined>
  /** Removes a file, or what is known of a batch; with `isWhole` false what is known of a file, not its content. */
  remove(id: string, isWhole?: boolean): Promise<void>
  /** The content of a file. */
  content(id: string): Readable
  /** The size of a file's content in bytes. */
  sizeOf(id: string): Promise<number>
  /** The lines of a file, with their numbers from 1; empty ones are left out. */
  lines(id: string): AsyncIterable<PlacedLine>
  /** The text of a line. */
  textOf(id: string, place: LinePlace): Promise<string>
}

/** Of {@link BatchStore.list}, where all must be known. */
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

/** How a line ended, which each has a file of answers for. */
export type AnswerKind = 'completed' | 'failed'

/** Whether an answer was taken: the last one makes a batch `whole`; `closed`: nobody wants any. */
export type Added = 'open' | 'whole' | 'closed'

/** The answers to the lines of batches, one for each line however often it is computed. */
export interface BatchAnswers {
  /** Begins to take a batch's answers; done twice, it changes nothing. */
  open(batch: BatchObject): Promise<void>
  /** Whether a line needs an answer: `due`; else what adding one would say now. */
  stateOf(batch: string, line: NumberedBatchLine): Promise<'due' | Added>
  /** Adds the answer of a line that has none. */
  add(batch: string, line: NumberedBatchLine, kind: AnswerKind, answer: object): Promise<Added>
  /** How many there are; undefined before they are opened and after they are removed. */
  counts(batch: string): Promise<BatchObject['request_counts'] | undefined>
  /** Makes files of what there is, and says how much that is; undefined: another server has ended the batch meanwhile. */
  close(batch: BatchObject): Promise<BatchObject['request_counts'] | undefined>
  /** Takes no more answers of a batch whose files are made. */
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

/** A job that waits. */
export interface QueuedJob {
  /** While there is one with this id, another one is not added. */
  readonly id: string
  readonly data: BatchJob
  /** Milliseconds before which nobody does it. Default: at once. */
  readonly delayMs?: number
}

/**
 * Does a job; the signal fires when this server may do none any more. What throws is done again, and so is what
 * returns milliseconds, after so long: another job has its place meanwhile.
 */
export type DoBatchJob = (job: BatchJob, signal: AbortSignal) => Promise<number | undefined>

/** The work on batches. Each job is done at least once. */
export interface BatchQueue {
  /** Whether jobs are lost with this process. Otherwise other servers do them, too. */
  readonly isForgetful: boolean
  /**
   * Adds jobs; of those that are there already, none.
   *
   * @param owner - whose they are: while one of them is put off, so are the others
   */
  add(jobs: readonly QueuedJob[], owner?: string): Promise<void>
  /** Removes a job that nobody does now, if there is one. */
  remove(id: string): Promise<void>
  /**
   * Does jobs in this process, this many at a time.
   *
   * @param onBegin - called when it may do them, and when it may do so again
   */
  process(concurrency: number, run: DoBatchJob, onBegin: () => Promise<void>): Promise<void>
}

/** Files and batches, their answers, and the work on them: of this server or of several together. */
export interface OpenBatches {
  readonly store: BatchStore
  readonly answers: BatchAnswers
  readonly queue: BatchQueue
}

/** A line of a file, and where its bytes are. */
export interface PlacedLine {
  /** From 1; empty lines count. */
  readonly line: number
  readonly text: string
  readonly at: number
  readonly bytes: number
}

const newline = '\n'.charCodeAt(0)

/**
 * The lines of a content, with their numbers from 1; empty ones are left out. Only `\n` ends one, with or
 * without `\r`: other ends of lines, as Node's readline has them, may stand within JSON.
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
