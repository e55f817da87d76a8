/** So many neighbours in the vocabulary share what is known of their logits. A power of two. */
export const blockSize = 64

/**
 * The passes over the logits of a whole vocabulary that a draw needs. Each draw begins with
 * {@link load}; one that reads its logits as they are sees NaN as a token that cannot be drawn.
 */
export interface VocabularyScan {
  /** Entries of the vocabulary. */
  readonly size: number
  /** The logits of this draw: a copy, to be changed before {@link findLargest}. */
  readonly logits: Float32Array
  /** The largest logit of each block, as {@link findLargest} found them. */
  readonly maxima: Float32Array
  /** The weights of each block, as {@link weigh} found them. */
  readonly sums: Float64Array
  /** Takes over the logits of another draw. */
  load(logits: Float32Array): void
  /** Reads all logits. The largest one; −Infinity when no token can be drawn. */
  findLargest(): number
  /**
   * Copies the entries whose logit is at least `from`, in the order of their ids. Blocks without
   * one are not read.
   * @returns how many they are
   */
  collect(from: number, ids: Int32Array, logits: Float32Array): number
  /**
   * Adds up exp(logit ÷ temperature − `shift`) for the entries whose logit is at least `from`, for
   * each block and in all, with the divided logits, the differences and the weights in single
   * precision as llama.cpp has them.
   */
  weigh(from: number, temperature: number, shift: number): Weighed
  /** Writes the weights of one block, as {@link weigh} has just added them up. */
  weights(block: number, into: Float32Array): void
}

/** What {@link VocabularyScan.weigh} found. */
export interface Weighed {
  /** The sum of the weights. */
  readonly total: number
  /** How many entries were left out at least, because their logit is smaller than `from`. */
  readonly leftOut: number
}
