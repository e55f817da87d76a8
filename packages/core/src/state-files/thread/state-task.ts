/** Writes a file beside its place, ends it with the CRC-32 of all before, and renames it. */
export interface WriteTask {
  readonly type: 'write'
  readonly path: string
  /** A name beside it that nobody else uses. */
  readonly temporary: string
  /** What comes before the data. */
  readonly head: Uint8Array
  /** Copied, unless its memory is shared. */
  readonly data: Uint8Array
}

/** Reads the data of a file into shared memory and compares the checksum behind it. */
export interface ReadTask {
  readonly type: 'read'
  readonly path: string
  /** Where the data begins. */
  readonly start: number
  /** The CRC-32 of what comes before. */
  readonly sum: number
  readonly data: Uint8Array
}

/** Writes to each page of new memory, so that the operating system finds and clears it now. */
export interface TouchTask {
  readonly type: 'touch'
  readonly memory: SharedArrayBuffer
}

/** What a {@link StateThread} does. */
export type StateTask = WriteTask | ReadTask | TouchTask

/** How a task ended. */
export interface StateReply {
  /** Why it failed; undefined: it did not. */
  readonly problem?: string
  /** The operating system's name of the failure. */
  readonly code?: string | undefined
}
