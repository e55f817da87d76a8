import type { TokenId } from './tokenizer.js'

/** The number of a KV slot, 0 to `limits.slots − 1`. */
export type SlotId = number

/** What of a slot is saved or restored. */
export interface StateOptions {
  /**
   * Only what a cut would lose: the sliding windows' cells, the recurrent layers' state. Such a state
   * is small, and is called a checkpoint. Default: everything.
   */
  readonly partial?: boolean
}

/** How a slot is saved. */
export interface SaveOptions extends StateOptions {
  /**
   * Gives memory of at least this many bytes to write into, or undefined: then nothing is saved. Default:
   * new memory, which takes longer to write to than memory that was used before.
   */
  readonly allocate?: (bytes: number) => Uint8Array | undefined
}

/** How a state is restored. */
export interface RestoreOptions extends StateOptions {
  /** How many tokens the slot held when the state was saved. */
  readonly tokens: number
}

/**
 * Saves what slots hold and puts it back, into any slot. Its calls are made between steps, one at a
 * time.
 *
 * A state is bytes that only a backend with the same {@link SlotStates.key} understands. Whoever keeps
 * it sees to it that it comes back as it was: changed bytes may end the process.
 */
export interface SlotStates {
  /**
   * Whether `truncate` can cut a slot at any token. Where it cannot, a slot is cut back to a
   * checkpoint.
   */
  readonly cutsAnywhere: boolean
  /**
   * Whether a checkpoint is only a part of what the slot held: then it is restored into a slot that
   * holds the tokens before it, and maybe more behind them. Otherwise it is restored into any slot.
   */
  readonly checkpointNeedsPrefix: boolean
  /**
   * The name of all that two backends must have in common for one to understand the states of the
   * other: the model's weights, the format of keys and values, the version of the library. It may read
   * a part of the model's file.
   */
  key(): Promise<string>
  /** Whether `truncate` would keep `length` tokens of the slot now. */
  canCut(slot: SlotId, length: number): boolean
  /** The state of a slot, or undefined where it cannot be had now. The slot stays as it is. */
  save(slot: SlotId, options?: SaveOptions): Promise<Uint8Array | undefined>
  /**
   * Makes the state the content of the slot, which holds `tokens` tokens then. Returns whether that
   * succeeded; otherwise the slot is empty.
   */
  restore(slot: SlotId, state: Uint8Array, options: RestoreOptions): Promise<boolean>
}

/** What a file says of the state in it. */
export interface StateHead {
  /** `SlotStates.key` of the backend that saved it. */
  readonly key: string
  /** What else must be the same: tenant and adapter, as the engine writes them. */
  readonly scope: string
  /** Whether it is a checkpoint. */
  readonly partial: boolean
  /** All tokens that the slot held. */
  readonly tokens: readonly TokenId[]
}

/** A state in a file. */
export interface StateFile extends StateHead {
  /** Of the file. */
  readonly name: string
  /** Of the state. */
  readonly bytes: number
}

/** A state that was written. */
export interface WrittenState extends StateFile {
  /** Names of files that were removed to make room for it. Default: none. */
  readonly removed?: readonly string[]
}

/** Files that keep states over restarts. Whatever cannot be read or written is logged, and not there. */
export interface StateFiles {
  /** Most bytes of all files. */
  readonly limitBytes: number
  /**
   * Whether states of conversations come here when their engine closes only, and leave when the next one reads
   * them: these files are memory, too. Default: false.
   */
  readonly whenClosing?: boolean
  /**
   * The states with this key, the latest used last.
   *
   * @param onLate - gets them later where they do not come in time, and none are returned
   */
  list(key: string, onLate?: (files: readonly StateFile[]) => void): Promise<StateFile[]>
  /**
   * The bytes of a state as they were written, in memory that `allocate` gives; or undefined. Where that
   * gives none, nothing is wrong with the file.
   *
   * @param onLate - called where nothing comes in time, and nothing may be wrong with the file, with what
   * resolves when the files answer again
   */
  read(
    file: StateFile,
    allocate: (bytes: number) => Uint8Array | undefined,
    onLate?: (back: Promise<void>) => void,
  ): Promise<Uint8Array | undefined>
  /** Writes a state whole or not at all; returns undefined where it could not. */
  write(head: StateHead, data: Uint8Array): Promise<WrittenState | undefined>
  /** It is wanted: others are removed first. */
  touch(file: StateFile): Promise<void>
  /** It is not wanted any more; one that is gone already is no failure. */
  remove(file: StateFile): Promise<void>
}

/** A state as its file holds it now. */
export interface FoundState extends StateFile {
  readonly data: Uint8Array
  /** In milliseconds since the epoch, by the clock of whoever wrote or touched it last. */
  readonly usedAt: number
  /** Another one each time that it is written; absent: nobody can tell. */
  readonly version?: string
}

/** What is kept of states that other processes write, touch and remove, too. */
export interface SharedStates extends Pick<StateFiles, 'touch' | 'remove'> {
  /** As that of {@link StateFiles}, which only logs why others are none. Default: there is nothing to log. */
  list?(key: string): Promise<StateFile[]>
  /**
   * Writes a state whole or not at all; returns undefined where it could not.
   *
   * @param instead - what it replaces: undefined where another process has changed that meanwhile, and it has a version
   */
  write(head: StateHead, data: Uint8Array, instead?: FoundState): Promise<WrittenState | undefined>
  /**
   * The state with this head as it is now, whoever wrote it; undefined: there is none.
   *
   * @throws the error of the file system or the server
   */
  find(head: StateHead): Promise<FoundState | undefined>
}

/** State files that other processes use, too. */
export interface SharedStateFiles extends StateFiles, SharedStates {
  /** As that of {@link StateFiles}. */
  list: StateFiles['list']
  /** As that of {@link StateFiles}. */
  write: StateFiles['write']
}

/** Gives memory for states. The first write to new memory takes ten times as long as the next ones. */
export interface StateMemorySource {
  /** New memory. */
  make(bytes: number): ArrayBufferLike
  /** New memory that was written to before, without keeping the caller from anything meanwhile. */
  makeReady(bytes: number): Promise<ArrayBufferLike>
}

/** What is done with a slot: its content is written to a file, read from one, or dropped. */
export type SlotAction =
  | { readonly action: 'save' | 'restore'; readonly filename: string }
  | { readonly action: 'erase' }

/** What came of a {@link SlotAction}. */
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
  /** Writes a file whole or not at all, and returns its bytes. Throws `invalid_request`. */
  write(filename: string, head: StateHead, data: Uint8Array): Promise<number>
  /**
   * Reads one. Throws `invalid_request` where it is none of these files, or damaged.
   *
   * @param check - called before the state is read, which may be large; what it throws is thrown
   */
  read(
    filename: string,
    check: (head: StateHead) => void,
  ): Promise<{ readonly head: StateHead; readonly data: Uint8Array; readonly bytes: number }>
}
