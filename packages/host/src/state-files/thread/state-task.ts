import type { StateFile } from '@cllm/core'
import type { ReadHead } from './state-format.js'

/** What may be needed to understand a file: 32 bytes. */
interface Secret {
  readonly secret?: Uint8Array | undefined
}

/** Writes a file beside its place, in a folder that is made if need be, and renames it. */
export interface WriteTask extends Secret {
  readonly type: 'write'
  readonly path: string
  /** A name beside it that nobody else uses. */
  readonly temporary: string
  /** What comes before the data. */
  readonly head: Uint8Array
  /** Copied, unless its memory is shared. */
  readonly data: Uint8Array
}

/** Reads the head of a file, and its state into shared memory of its length. */
export interface ReadTask extends Secret {
  readonly type: 'read'
  readonly path: string
  /** Default: only the head is read. */
  readonly data?: Uint8Array
}

/** Reads the heads of all files of a folder that are left when those too old or too much are removed. */
export interface ListTask extends Secret, Omit<CleanTask, 'type'> {
  readonly type: 'list'
  /** Those of others are left out. */
  readonly key: string
}

/** Removes what is too old or too much from a folder. */
export interface CleanTask {
  readonly type: 'clean'
  readonly folder: string
  /** Milliseconds since the epoch. */
  readonly now: number
  readonly limitBytes: number
  /** Bytes of a file that is to come. */
  readonly more: number
  readonly maxAgeMs: number
}

/** Files that are kept, the latest used last, and the bytes of all of them. */
export interface Kept {
  readonly names: readonly string[]
  readonly bytes: number
  /** Names of those that are not kept. */
  readonly removed: readonly string[]
}

/** Writes to each page of new memory, so that the operating system finds and clears it now. */
export interface TouchTask {
  readonly type: 'touch'
  readonly memory: SharedArrayBuffer
}

/** Removes what writers that died have left of files that clients name; see `removeUnfinished`. */
export interface SweepTask {
  readonly type: 'sweep'
  readonly folder: string
}

/** Removes a file; one that is gone already is no failure. */
export interface RemoveTask {
  readonly type: 'remove'
  readonly path: string
}

/** Sets the times of a file; one that is gone is no failure. */
export interface UseTask {
  readonly type: 'use'
  readonly path: string
  /** Milliseconds since the epoch. */
  readonly now: number
}

/** What a {@link StateThread} does. */
export type StateTask =
  | WriteTask
  | ReadTask
  | ListTask
  | CleanTask
  | TouchTask
  | SweepTask
  | RemoveTask
  | UseTask

/** What a folder holds. */
export interface Listed {
  /** The latest used last. */
  readonly files: readonly StateFile[]
  /** Why others are none, and how many for each reason. */
  readonly problems: readonly ListProblem[]
}

/** Files that cannot be used. */
export interface ListProblem {
  readonly reason: string
  readonly count: number
  /** One of them. */
  readonly name: string
}

/** What comes of a task. */
export type StateResult<Task extends StateTask> = Task extends ReadTask
  ? ReadHead
  : Task extends ListTask
    ? Listed
    : Task extends CleanTask
      ? Kept
      : void

/** How a task ended. */
export interface StateReply {
  /** What came of it. */
  readonly result?: unknown
  /** Why it failed; undefined: it did not. */
  readonly problem?: string
  /** The operating system's name of the failure. */
  readonly code?: string | undefined
}
