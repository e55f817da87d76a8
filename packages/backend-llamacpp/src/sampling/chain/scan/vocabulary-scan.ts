/** This many neighbours in the vocabulary share what is known of their logits. A power of two. */
export const blockSize = 64

/** Weights up to this are those of tokens that cannot be drawn: exp(−85). */
export const leastWeight = 1.2e-37

/** The smallest number that a logit can be: tokens with −Infinity cannot be drawn. */
export const leastLogit = -3.4028234663852886e38

/**
 * The passes over the logits of a whole vocabulary that a draw needs, and the lists that they fill.
 * NaN counts as the logit of a token that cannot be drawn, as −Infinity does. The arrays' lengths are
 * multiples of {@link blockSize}; what is behind the vocabulary's end cannot be drawn.
 */
export interface VocabularyScan {
  /** Entries of the vocabulary. */
  readonly size: number
  /** The logits of this draw: a copy, to be changed before {@link findLargest}. */
  readonly logits: Float32Array
  /** The largest logit of each block, as {@link findLargest} found them. */
  readonly maxima: Float32Array
  /** The sum of the weights of each block, as {@link weigh} found them. */
  readonly sums: Float64Array
  /** What {@link weigh} or {@link weighListed} wrote last. */
  readonly weights: Float32Array
  /** The tokens that {@link collect} listed. */
  readonly ids: Int32Array
  /** Their logits. */
  readonly listed: Float32Array
  /** Reads all logits. The largest one; −Infinity when no token can be drawn. */
  findLargest(): number
  /**
   * Lists the tokens whose logit is at least `from`, in the order of their ids. Blocks without one
   * are not read.
   * @param from - more than −Infinity
   * @returns how many they are
   */
  collect(from: number): number
  /**
   * Computes exp(logit ÷ temperature − shift), in single precision as llama.cpp, and adds them up in
   * double precision, for each block and in all.
   * @param from - blocks without so large a logit are left out: their sum is 0, and their weights are
   *   not written
   * @param shift - the largest logit ÷ temperature
   */
  weigh(from: number, temperature: number, shift: number): number
  /** The same for the first `count` that are listed; 1 or more. Their sum. */
  weighListed(count: number, temperature: number, shift: number): number
}
