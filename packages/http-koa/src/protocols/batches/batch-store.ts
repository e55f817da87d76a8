import type { Readable } from 'node:stream'
import type { BatchObject, FileObject, Kept } from './batch-objects.js'

/** Files, or batches. */
export type BatchKind = 'files' | 'batches'

/** What is kept of one of a kind. */
export type Stored<K extends BatchKind> = Kept<K extends 'files' ? FileObject : BatchObject>

/** A line of a file. */
export interface NumberedLine {
  /** From 1; empty lines count. */
  readonly line: number
  readonly text: string
}

/** Where files and batches are kept. */
export interface BatchStore {
  /** Stores a new file. */
  create(kept: Kept<FileObject>, content: Uint8Array): Promise<void>
  /** Stores what is known of one, in place of what was. */
  put<K extends BatchKind>(kind: K, kept: Stored<K>): Promise<void>
  /** What is known of one, or undefined. */
  get<K extends BatchKind>(kind: K, id: string): Promise<Stored<K> | undefined>
  /** All of them, the newest first. */
  list<K extends BatchKind>(kind: K): Promise<Stored<K>[]>
  /** Changes a batch, unless `change` returns undefined; returns it as it is then. */
  update(
    id: string,
    change: (batch: BatchObject) => Partial<BatchObject> | undefined,
  ): Promise<Kept<BatchObject> | undefined>
  /** Removes a file. */
  remove(id: string): Promise<void>
  /** The content of a file. */
  content(id: string): Readable
  /** The size of a file's content in bytes. */
  sizeOf(id: string): Promise<number>
  /** The lines of a file, with their numbers from 1; empty ones are left out. */
  lines(id: string): AsyncIterable<NumberedLine>
}

/** Runs the batches of a store. */
export interface BatchJobs {
  /** Goes on with what an earlier process has left. */
  resume(): Promise<void>
  /** Runs a batch, which is in the store. */
  start(id: string): void | Promise<void>
  /** Ends a batch's lines that are computed, and leaves out the others. */
  stop(id: string): void | Promise<void>
  /** The batch with what is counted now. */
  live(batch: BatchObject): BatchObject | Promise<BatchObject>
}
