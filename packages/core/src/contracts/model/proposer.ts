import type { TokenId } from './tokenizer.js'

/** A guess of what comes next in a sequence. */
export interface Proposal {
  /** The next tokens, in their order; those after one that is no token are left out. None: no guess. */
  readonly tokens: readonly TokenId[]
  /**
   * What kind of guess it is, 0 to 15; default 0. The engine learns for each kind how often its tokens
   * are right, so guesses that are about equally likely should have the same one.
   */
  readonly kind?: number
}

/**
 * Guesses the next tokens of one sequence, which the engine verifies in one step when that is likely
 * to be faster. A wrong guess costs time and never changes the output.
 */
export interface Drafter {
  /**
   * Guesses what comes after `tokens`. Called for every token of the answer, so it should return within
   * microseconds. It must follow from the tokens alone: a request that is continued by another engine
   * gets a new drafter in the middle.
   * @param tokens - the prompt and the answer so far: those of the last call, and more behind them.
   *   Only valid during the call.
   * @param most - more tokens than this are left out; 1 or more
   */
  propose(tokens: readonly TokenId[], most: number): Proposal
}

/** What a proposer may know of a sequence beside its tokens. */
export interface DraftedSequence {
  /** What its constraint leaves no choice about, as its sampler's `forced` has it; left out without one. */
  readonly forced?: Drafter['propose']
}

/** Makes the drafters of an engine's sequences. */
export interface Proposer {
  /** A drafter for one sequence; undefined: there is nothing to guess by. */
  begin(sequence: DraftedSequence): Drafter | undefined
}
