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
