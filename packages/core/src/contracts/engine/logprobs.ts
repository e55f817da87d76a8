import type { TokenId } from '../model/tokenizer.js'

/** A token that could have come, with the natural logarithm of its probability. */
export interface LikelyToken {
  readonly token: TokenId
  /** Its text; what is no whole character shows as U+FFFD. */
  readonly text: string
  /** The bytes of the text. */
  readonly bytes: readonly number[]
  /**
   * By the model's own distribution: before temperature, penalties, bias, cuts and constraints. After
   * them where `drawLogprobs` was asked for.
   */
  readonly logprob: number
}

/** How likely a token was, and what else could have come. */
export interface TokenLogprobs extends LikelyToken {
  /** The likeliest tokens in its place, the likeliest first. */
  readonly top: readonly LikelyToken[]
}

/** How likely a token of the prompt was; null for the first, which nothing comes before. */
export interface PromptTokenLogprobs extends Omit<TokenLogprobs, 'logprob'> {
  readonly logprob: number | null
}

/** One for each token of a prompt. */
export type PromptLogprobs = readonly PromptTokenLogprobs[]
