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
  /**
   * Locally typical sampling: the tokens whose surprise is nearest to the expected one, up to this
   * probability; 1 switches it off (default).
   */
  readonly typicalP: number
  /**
   * Drops tokens whose logit is further than this many standard deviations below the largest; 0
   * switches it off (default).
   */
  readonly topNSigma: number
  /**
   * The temperature is between `temperature` − this and `temperature` + this, the higher the less
   * certain the model is; 0 switches it off (default). A temperature of 0 stays greedy.
   */
  readonly dynamicTemperatureRange: number
  /** How the model's uncertainty, 0 to 1, maps to that range: raised to this power; default 1. */
  readonly dynamicTemperatureExponent: number
  /** XTC: how often the likeliest tokens are left out, 0 to 1; 0 switches it off (default). */
  readonly xtcProbability: number
  /**
   * XTC leaves out all but the least likely of the tokens that have this probability; above 0.5 it is
   * off. Default 0.1.
   */
  readonly xtcThreshold: number
  /** DRY: how much tokens that continue a repetition are made less likely; 0 switches it off (default). */
  readonly dryMultiplier: number
  /** The penalty is `dryMultiplier` × this ^ (repeated tokens − `dryAllowedLength`); default 1.75. */
  readonly dryBase: number
  /** Repetitions shorter than this are free, in tokens; default 2. */
  readonly dryAllowedLength: number
  /** How many of the latest tokens (prompt included) are searched; 0 switches it off. Default 64. */
  readonly dryPenaltyLastN: number
  /** Texts that no repetition goes beyond; default: a line break, `:`, `"` and `*`. */
  readonly drySequenceBreakers: readonly string[]
  /**
   * 2: draws from the likeliest tokens whose expected surprise is `mirostatTau`, in place of all other
   * cuts and a dynamic temperature; 0 switches it off (default). llama.cpp also takes 1.
   */
  readonly mirostat: 0 | 2
  /** The expected surprise in bits; default 5. */
  readonly mirostatTau: number
  /**
   * How fast llama.cpp's cut follows the surprises of the tokens so far; default 0.1. Draws here do not
   * depend on those: the cut is where llama.cpp's would settle, and this changes nothing.
   */
  readonly mirostatEta: number
  /** 0 to 4294967295. The engine picks one when the request has none. */
  readonly seed: number
  /**
   * A step that leaves out unlikely tokens (top-p, min-p, typical-p, XTC) leaves at least as many; default
   * 0, which is one.
   */
  readonly minKeep: number
  /**
   * How many of the latest tokens (prompt included) the three penalties below look at; 0 switches them
   * off. Default 64, as in llama.cpp.
   */
  readonly penaltyLastN: number
  /** Divides the logits of tokens among those; 1 switches it off (default). */
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
  /** Samplers of plug-ins, applied in this order before all that is above; default: none. */
  readonly samplers?: readonly SamplerChoice[]
}

/** A sampler of a plug-in, by the name that it was registered under. */
export interface SamplerChoice {
  readonly name: string
  /** Default: its own defaults. */
  readonly options?: Readonly<Record<string, unknown>>
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
  typicalP: 1,
  topNSigma: 0,
  dynamicTemperatureRange: 0,
  dynamicTemperatureExponent: 1,
  xtcProbability: 0,
  xtcThreshold: 0.1,
  dryMultiplier: 0,
  dryBase: 1.75,
  dryAllowedLength: 2,
  dryPenaltyLastN: 64,
  drySequenceBreakers: Object.freeze(['\n', ':', '"', '*']),
  mirostat: 0,
  mirostatTau: 5,
  mirostatEta: 0.1,
  minKeep: 0,
  penaltyLastN: 64,
  repetitionPenalty: 1,
  presencePenalty: 0,
  frequencyPenalty: 0,
  logitBias: [],
  ignoreEos: false,
})
