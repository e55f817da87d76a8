import type { TokenId, Tokenizer } from './tokenizer.js'

/** What a sampler of a plug-in is made with, once for each request. */
export interface SamplerContext {
  /** The model's vocabulary. Ids are 0 to `vocabularySize − 1`, as are the indexes of logits. */
  readonly tokenizer: Pick<
    Tokenizer,
    'vocabularySize' | 'encode' | 'decode' | 'bytesOf' | 'isEndOfGeneration'
  >
  /** The request's seed, 0 to 4294967295, for samplers that need random numbers. */
  readonly seed: number
}

/** Which token is about to be drawn. */
export interface DrawPlace {
  /** The position of the latest token; the one that is drawn belongs behind it. */
  readonly position: number
  /** All tokens up to there, prompt included. Only valid during the call. */
  readonly tokens: readonly TokenId[]
}

/**
 * Changes the logits of each draw of one request, before penalties, cuts and temperature. What it does
 * must follow from its options, the seed and the place alone: a request that is preempted or continued
 * by another engine gets a new one in the middle. It is called for every token, so it should be quick:
 * a vocabulary can have 150,000 entries.
 */
export interface LogitProcessor {
  /**
   * Changes the logits of one draw.
   * @param logits - one for each token of the vocabulary, to be changed in place; −Infinity forbids a
   *   token, and NaN does too. At least one must be left.
   */
  apply(logits: Float32Array, place: DrawPlace): void
}
