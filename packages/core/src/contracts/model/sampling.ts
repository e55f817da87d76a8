import type { OutputConstraint } from './output-constraint.js'
import type { TokenId } from './tokenizer.js'

/** How the next token is chosen from the model's distribution. */
export interface SamplingParams {
  /** 0 is greedy; default 0.7. */
  readonly temperature: number
  /** Only the k likeliest tokens; 0 switches it off (default). */
  readonly topK: number
  /** Nucleus sampling: the likeliest tokens up to this probability; 1 switches it off (default). */
  readonly topP: number
  /** Drops tokens below this share of the likeliest one's probability; 0 switches it off (default). */
  readonly minP: number
  /** 0 to 4294967295. The engine picks one when the request has none. */
  readonly seed: number
  /** Divides the logits of tokens seen in the last 64; 1 switches it off (default). */
  readonly repetitionPenalty: number
  /** OpenAI's presence penalty, −2 to 2; default 0. */
  readonly presencePenalty: number
  /** OpenAI's frequency penalty, −2 to 2; default 0. */
  readonly frequencyPenalty: number
  /** Added to the logits of single tokens. */
  readonly logitBias: readonly (readonly [token: TokenId, bias: number])[]
  /**
   * Never draws an end-of-generation token; default false. Together with a constraint: only where
   * the constraint allows nothing else.
   */
  readonly ignoreEos: boolean
  /** Constrains the output; default: no constraint. */
  readonly constraint?: OutputConstraint
}

/**
 * The one table of defaults for every protocol: penalties and truncation are off unless the
 * request, the protocol's documented default or the configuration turns them on.
 */
export const defaultSampling: Omit<SamplingParams, 'seed'> = Object.freeze({
  temperature: 0.7,
  topK: 0,
  topP: 1,
  minP: 0,
  repetitionPenalty: 1,
  presencePenalty: 0,
  frequencyPenalty: 0,
  logitBias: [],
  ignoreEos: false,
})

/** Number of latest tokens (prompt included) that penalties consider, as in llama.cpp. */
export const penaltyWindow = 64
