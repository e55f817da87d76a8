import type { Clock, Random } from '@cllm/core'
import { requestId } from '@cllm/host'

/** A stored file, in OpenAI's shape. */
export interface FileObject {
  readonly id: string
  readonly object: 'file'
  readonly bytes: number
  /** Seconds since the epoch. */
  readonly created_at: number
  readonly filename: string
  readonly purpose: 'batch' | 'batch_output'
}

/** The status of a batch. */
export type BatchStatus =
  | 'validating'
  | 'failed'
  | 'in_progress'
  | 'finalizing'
  | 'completed'
  | 'expired'
  | 'cancelling'
  | 'cancelled'

/** What is wrong with a line of an input file. */
export interface BatchError {
  readonly code: string
  readonly message: string
  /** From 1. */
  readonly line: number | null
  readonly param: string | null
}

/** When a batch got each status, in seconds since the epoch. */
type BatchTimes = Readonly<Record<`${Exclude<BatchStatus, 'validating'>}_at`, number | null>>

/** A batch, in OpenAI's shape. Times are seconds since the epoch. */
export interface BatchObject extends BatchTimes {
  readonly id: string
  readonly object: 'batch'
  readonly endpoint: string
  readonly errors: { readonly object: 'list'; readonly data: readonly BatchError[] } | null
  readonly input_file_id: string
  readonly completion_window: string
  readonly status: BatchStatus
  readonly output_file_id: string | null
  readonly error_file_id: string | null
  readonly created_at: number
  readonly expires_at: number
  readonly request_counts: {
    readonly total: number
    readonly completed: number
    readonly failed: number
  }
  readonly metadata: Readonly<Record<string, string>> | null
}

/** The API key that owns a file or a batch; absent on servers without keys. */
export interface Owner {
  readonly name: string
  readonly tenant: string
  /** SHA-256 of the key, so that its limits apply to lines that are computed later. */
  readonly hash: string
}

/** The stored record of a file or a batch. */
export interface Kept<T> {
  readonly owner?: Owner
  readonly object: T
}

/** Whether a batch has not ended. */
export const isUnderWay = ({ status }: BatchObject): boolean =>
  ['validating', 'in_progress', 'finalizing', 'cancelling'].includes(status)

const message = 'The API key that asked for this batch is valid no longer'

/** The errors of a batch that ends because its key was removed. */
export const keyIsGone: NonNullable<BatchObject['errors']> = {
  object: 'list',
  data: [{ code: 'unauthenticated', message, line: null, param: null }],
}

/** Sorts records, the newest first. */
export const newestFirst = <T extends Kept<FileObject | BatchObject>>(all: T[]): T[] =>
  all.sort(
    ({ object: one }, { object: other }) =>
      other.created_at - one.created_at || one.id.localeCompare(other.id),
  )

/** A new id of a file or a batch. */
export const newId = (kind: 'file-' | 'batch_', random: Random): string =>
  `${kind}${requestId(random)}`

/** A new file of `bytes` bytes; default: an uploaded one with the lines of a batch. */
export const newFile = (
  { clock, random }: { readonly clock: Clock; readonly random: Random },
  filename: string,
  bytes: number,
  given: Partial<FileObject> = {},
): FileObject => ({
  id: newId('file-', random),
  object: 'file',
  bytes,
  created_at: Math.floor(clock.wall() / 1000),
  filename,
  purpose: 'batch',
  ...given,
})

/** Seconds since the epoch in Anthropic's format. */
export const timeOf = (seconds: number | null): string | null =>
  seconds === null ? null : new Date(seconds * 1000).toISOString()

/** The ids of a batch's output files. They are derived from its own id, so that they are found again after a crash. */
export function outputIds(batch: string): Readonly<Record<'completed' | 'failed', string>> {
  const digits = batch.slice('batch_'.length)
  return { completed: fileOf(digits, 1), failed: fileOf(digits, 2) }
}

/** Derives the id of a file for a number. */
const fileOf = (digits: string, number: number): string =>
  `file-${digits.slice(0, -1)}${(parseInt(digits.slice(-1), 16) ^ number).toString(16)}`
