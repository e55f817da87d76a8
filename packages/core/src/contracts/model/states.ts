import type { TokenId } from './tokenizer.js'

/** The number of a KV slot, 0 to `limits.slots − 1`. */
export type SlotId = number

/** Which part of a slot is saved or restored. */
export interface StateOptions {
  /**
   * Only the part that cutting the slot would lose: the cells of sliding windows, the state of recurrent layers. Such a
   * state is small, and is called a checkpoint. Default: everything.
   */
  readonly partial?: boolean
}

/** How a slot is saved. */
export interface SaveOptions extends StateOptions {
  /**
   * Returns memory of at least this many bytes to write into, or undefined: then nothing is saved. Default: new memory,
   * which takes longer to write to than memory that was used before.
   */
  readonly allocate?: (bytes: number) => Uint8Array | undefined
}

/** How a state is restored. */
export interface RestoreOptions extends StateOptions {
  /** How many tokens the slot held when the state was saved. */
  readonly tokens: number
}

/**
 * Saves the contents of slots and restores them, into any slot. Calls are made between steps, one at a time.
 *
 * A state is a sequence of bytes that only a backend with the same {@link SlotStates.key} understands. Whoever stores it
 * must return it unchanged: changed bytes may end the process.
 */
export interface SlotStates {
  /**
   * Whether `truncate` can cut a slot at any token. Where it cannot, a slot is cut back to a
   * checkpoint.
   */
  readonly cutsAnywhere: boolean
  /**
   * Whether a checkpoint can only be restored into a slot that holds the tokens before it (and maybe more behind them).
   * Otherwise it can be restored into any slot.
   */
  readonly checkpointNeedsPrefix: boolean
  /**
   * Identifies everything that two backends must have in common to read each other's states: the model's weights, the
   * format of keys and values, the version of the library. Computing it may read a part of the model's file.
   */
  key(): Promise<string>
  /** Whether `truncate` would keep `length` tokens of the slot now. */
  canCut(slot: SlotId, length: number): boolean
  /** The state of a slot, or undefined if it cannot be saved now. The slot stays as it is. */
  save(slot: SlotId, options?: SaveOptions): Promise<Uint8Array | undefined>
  /**
   * Makes the state the content of the slot, which then holds `tokens` tokens. False if that failed, and the slot is
   * empty.
   */
  restore(slot: SlotId, state: Uint8Array, options: RestoreOptions): Promise<boolean>
}

/** The header of a state's file. */
export interface StateHead {
  /** `SlotStates.key` of the backend that saved it. */
  readonly key: string
  /** The scope within which it may be used: tenant and adapters, as the engine writes them. */
  readonly scope: string
  /** Whether it is a checkpoint. */
  readonly partial: boolean
  /** All tokens that the slot held. */
  readonly tokens: readonly TokenId[]
}

/** A state in a file. */
export interface StateFile extends StateHead {
  /** The name of the file. */
  readonly name: string
  /** The size of the state. */
  readonly bytes: number
}

/** A state that was written. */
export interface WrittenState extends StateFile {
  /** Names of files that were removed to make room for it. Default: none. */
  readonly removed?: readonly string[]
}

/** Files that keep states over restarts. Files that cannot be read or written are logged, and count as absent. */
export interface StateFiles {
  /** The most bytes of all files together. */
  readonly limitBytes: number
  /**
   * Whether states are only written when their engine closes, and removed when the next one reads them, as these files
   * are memory, too. Default: false.
   */
  readonly whenClosing?: boolean
  /**
   * The states with this key, the most recently used last.
   *
   * @param onLate - called with the states if listing takes too long and an empty list was returned
   */
  list(key: string, onLate?: (files: readonly StateFile[]) => void): Promise<StateFile[]>
  /**
   * The bytes of a state as they were written, in memory from `allocate`. Undefined if that returns none, or the file
   * cannot be read.
   *
   * @param onLate - called if reading takes too long, although nothing may be wrong with the file; the promise resolves
   *   when the files answer again
   */
  read(
    file: StateFile,
    allocate: (bytes: number) => Uint8Array | undefined,
    onLate?: (back: Promise<void>) => void,
  ): Promise<Uint8Array | undefined>
  /** As in {@link SharedStates}. Default: what other processes have written is only listed. */
  find?(head: StateHead): Promise<FoundState | undefined>
  /** Writes a state as a whole or not at all; undefined if it failed. */
  write(head: StateHead, data: Uint8Array): Promise<WrittenState | undefined>
  /** Marks a file as recently used: others are removed first. */
  touch(file: StateFile): Promise<void>
  /** Removes a file; no error if it is gone already. */
  remove(file: StateFile): Promise<void>
}

/** The present content of a state's file. */
export interface FoundState extends StateFile {
  readonly data: Uint8Array
  /** Its last use in milliseconds since the epoch, by the clock of the process that wrote or touched it. */
  readonly usedAt: number
  /** Changes with each write; absent: unknown. */
  readonly version?: string
}

/** A store of states that other processes write, touch and remove, too. */
export interface SharedStates extends Pick<StateFiles, 'touch' | 'remove'> {
  /** As in {@link StateFiles}, but only to log which files are unreadable. Default: nothing is logged. */
  list?(key: string): Promise<StateFile[]>
  /**
   * Writes a state as a whole or not at all; undefined if it failed.
   *
   * @param instead - the state that it replaces; also undefined if another process has changed that meanwhile, as its
   *   version tells
   */
  write(head: StateHead, data: Uint8Array, instead?: FoundState): Promise<WrittenState | undefined>
  /**
   * The present state with this header, from whichever process; undefined: there is none.
   *
   * @throws the error of the file system or the server
   */
  find(head: StateHead): Promise<FoundState | undefined>
}

/** State files that are shared with other processes. */
export interface SharedStateFiles extends StateFiles, SharedStates {
  /** As in {@link StateFiles}. */
  list: StateFiles['list']
  /** As in {@link SharedStates}. */
  find: SharedStates['find']
  /** As in {@link SharedStates}. */
  write: SharedStates['write']
}

/** Allocates memory for states. The first write to new memory takes ten times as long as later ones. */
export interface StateMemorySource {
  /** New memory. */
  make(bytes: number): ArrayBufferLike
  /** New memory that was written to once, in the background. */
  makeReady(bytes: number): Promise<ArrayBufferLike>
}

/** An action on a slot: its content is written to a file, read from one, or dropped. */
export type SlotAction =
  | { readonly action: 'save' | 'restore'; readonly filename: string }
  | { readonly action: 'erase' }

/** The result of a {@link SlotAction}. */
export interface SlotActionResult {
  readonly slot: SlotId
  /** Tokens that were saved, restored or erased. */
  readonly tokens: number
  /** Bytes of the file; 0 when a slot was erased. */
  readonly bytes: number
  readonly ms: number
}

/** Files of slots, by the names that clients give them. */
export interface SlotFiles {
  /** Writes a file as a whole or not at all; returns its size in bytes. Throws `invalid_request`. */
  write(filename: string, head: StateHead, data: Uint8Array): Promise<number>
  /**
   * Reads a file. Throws `invalid_request` for a damaged file or one of another kind.
   *
   * @param check - called before the state is read, which may be large; its error is thrown
   */
  read(
    filename: string,
    check: (head: StateHead) => void,
  ): Promise<{ readonly head: StateHead; readonly data: Uint8Array; readonly bytes: number }>
}
