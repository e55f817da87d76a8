import type { OutputConstraint } from './drawing.js'
import type { TokenId } from './tokenizer.js'

/** The description of a numeric sampling parameter: everything but the sampler itself. */
export interface SamplingField {
  /** Its name in HTTP bodies. */
  readonly wire: string
  /** Its name in the APIs of llama-server and Ollama, if it differs. */
  readonly llama?: string
  /** Its name in a GGUF that recommends it, under `general.sampling`. */
  readonly gguf?: string
  readonly min: number
  /** Default: none in the engine, 2³¹ − 1 in HTTP bodies. */
  readonly max?: number
  readonly integer?: boolean
  /** The narrower range of OpenAI's, Anthropic's and the native API. */
  readonly usual?: { readonly min: number; readonly max: number }
  /** The meaning of values below `min`, down to `from`, in HTTP bodies; `means` undefined: the default. */
  readonly below?: { readonly from: number; readonly means: number | undefined }
  /** The value if neither the request nor the protocol nor the configuration has one. */
  readonly default: number
  /** The value that switches it off, if that is not the default. */
  readonly off?: number
  /** The step of llama-server's `samplers` that it belongs to. */
  readonly step?: string
  /** Whether only backends with the capability `samplers` take another value than the default. */
  readonly extra?: true
  /** The text of its option in `api.defaults`; without it there is none. */
  readonly option?: string
}

/** The number of latest tokens that means the whole context. */
const everything = 2 ** 31 - 1
const penalty = { min: -100, max: 100, usual: { min: -2, max: 2 } } as const

/**
 * The numbers of {@link SamplingParams}: one row for each. From it come the fields of every API, their
 * defaults, `api.defaults`, the settings that llama-server's API shows, and the engine's checks.
 */
export const samplingFields = {
  /** 0 is greedy; default 0.7. */
  temperature: {
    wire: 'temperature',
    gguf: 'temp',
    min: 0,
    max: 100,
    usual: { min: 0, max: 2 },
    default: 0.7,
    off: 1,
    step: 'temperature',
    option: 'Sampling temperature; 0 always takes the likeliest token.',
  },
  /**
   * The temperature is between `temperature` − this and `temperature` + this, the higher the less
   * certain the model is; 0 switches it off (default). A temperature of 0 stays greedy.
   */
  dynamicTemperatureRange: {
    wire: 'dynatemp_range',
    min: 0,
    max: 100,
    default: 0,
    step: 'temperature',
    extra: true,
  },
  /** How the model's uncertainty, 0 to 1, maps to that range: raised to this power; default 1. */
  dynamicTemperatureExponent: { wire: 'dynatemp_exponent', min: 0, max: 100, default: 1 },
  /** Only the k likeliest tokens; 0 switches it off (default). */
  topK: {
    wire: 'top_k',
    gguf: 'top_k',
    min: 0,
    integer: true,
    below: { from: -1, means: 0 },
    default: 0,
    step: 'top_k',
    option: 'Sample from the k likeliest tokens; 0 is off.',
  },
  /** Nucleus sampling: the likeliest tokens up to this probability; 1 switches it off (default). */
  topP: {
    wire: 'top_p',
    gguf: 'top_p',
    min: 0,
    max: 1,
    default: 1,
    step: 'top_p',
    option: 'Sample from the likeliest tokens up to this total probability; 1 is off.',
  },
  /** Drops tokens below this share of the likeliest one's probability; 0 switches it off (default). */
  minP: {
    wire: 'min_p',
    gguf: 'min_p',
    min: 0,
    max: 1,
    default: 0,
    step: 'min_p',
    option: "Drop tokens below this share of the likeliest token's probability; 0 is off.",
  },
  /**
   * Drops tokens whose logit is further than this many standard deviations below the largest; 0
   * switches it off (default).
   */
  topNSigma: {
    wire: 'top_n_sigma',
    min: 0,
    max: 1000,
    below: { from: -1, means: 0 },
    default: 0,
    step: 'top_n_sigma',
    extra: true,
  },
  /** XTC: how often the likeliest tokens are left out, 0 to 1; 0 switches it off (default). */
  xtcProbability: { wire: 'xtc_probability', min: 0, max: 1, default: 0, step: 'xtc', extra: true },
  /**
   * XTC leaves out all but the least likely of the tokens that have this probability; above 0.5 it is
   * off. Default 0.1.
   */
  xtcThreshold: { wire: 'xtc_threshold', min: 0, max: 1, default: 0.1 },
  /**
   * Locally typical sampling: the tokens whose surprise is nearest to the expected one, up to this
   * probability; 1 switches it off (default).
   */
  typicalP: { wire: 'typical_p', min: 0, max: 1, default: 1, step: 'typ_p', extra: true },
  /**
   * How many of the latest tokens (prompt included) the three penalties below look at; 0 switches them
   * off. Default 64, as in llama.cpp.
   */
  penaltyLastN: {
    wire: 'repeat_last_n',
    gguf: 'penalty_last_n',
    min: 0,
    integer: true,
    below: { from: -1, means: everything },
    default: 64,
  },
  /** Divides the logits of tokens among those; 1 switches it off (default). */
  repetitionPenalty: {
    wire: 'repetition_penalty',
    llama: 'repeat_penalty',
    gguf: 'penalty_repeat',
    min: 0.01,
    max: 100,
    usual: { min: 0.01, max: 10 },
    default: 1,
    step: 'penalties',
    option: 'Divisor for the logits of recent tokens; 1 is off.',
  },
  /** OpenAI's presence penalty, −2 to 2; default 0. */
  presencePenalty: {
    wire: 'presence_penalty',
    ...penalty,
    default: 0,
    step: 'penalties',
    option: "OpenAI's presence penalty; 0 is off.",
  },
  /** OpenAI's frequency penalty, −2 to 2; default 0. */
  frequencyPenalty: {
    wire: 'frequency_penalty',
    ...penalty,
    default: 0,
    step: 'penalties',
    option: "OpenAI's frequency penalty; 0 is off.",
  },
  /** DRY: how much tokens that continue a repetition are made less likely; 0 switches it off (default). */
  dryMultiplier: { wire: 'dry_multiplier', min: 0, max: 100, default: 0, step: 'dry', extra: true },
  /** The penalty is `dryMultiplier` × this ^ (repeated tokens − `dryAllowedLength`); default 1.75. */
  dryBase: {
    wire: 'dry_base',
    min: 1,
    max: 100,
    below: { from: 0, means: undefined },
    default: 1.75,
  },
  /** Repetitions shorter than this are free, in tokens; default 2. */
  dryAllowedLength: { wire: 'dry_allowed_length', min: 0, integer: true, default: 2 },
  /** How many of the latest tokens (prompt included) are searched; 0 switches it off. Default 64. */
  dryPenaltyLastN: {
    wire: 'dry_penalty_last_n',
    min: 0,
    integer: true,
    below: { from: -1, means: everything },
    default: 64,
  },
  /**
   * 2: draws from the likeliest tokens whose expected surprise is `mirostatTau`, in place of all other
   * cuts and a dynamic temperature; 0 switches it off (default). llama.cpp also takes 1.
   */
  mirostat: { wire: 'mirostat', min: 0, max: 2, integer: true, default: 0, extra: true },
  /** The expected surprise in bits; default 5. */
  mirostatTau: { wire: 'mirostat_tau', min: 0, max: 100, default: 5 },
  /**
   * How fast llama.cpp's cut follows the surprises of the tokens so far; default 0.1. Draws here do not
   * depend on those: the cut is where llama.cpp's would settle, and this changes nothing.
   */
  mirostatEta: { wire: 'mirostat_eta', min: 0, max: 100, default: 0.1 },
  /**
   * A step that leaves out unlikely tokens (top-p, min-p, typical-p, XTC) leaves at least as many; default
   * 0, which is one.
   */
  minKeep: { wire: 'min_keep', min: 0, integer: true, default: 0, extra: true },
} as const satisfies Readonly<Record<string, SamplingField>>

/** The names of {@link samplingFields}. */
export type SamplingNumber = keyof typeof samplingFields

/** The rows of {@link samplingFields}, in their order. */
export const samplingRows = Object.entries(samplingFields) as readonly (readonly [
  name: SamplingNumber,
  field: SamplingField,
])[]

/** A number for each row; each is documented there. */
export type SamplingNumbers = { readonly [Name in SamplingNumber]: number }

/** The parameters by which the next token is sampled from the model's distribution. */
export interface SamplingParams extends SamplingNumbers {
  readonly mirostat: 0 | 2
  /** DRY: texts at which a repetition ends; default: a line break, `:`, `"` and `*`. */
  readonly drySequenceBreakers: readonly string[]
  /** 0 to 4294967295. The engine picks one when the request has none. */
  readonly seed: number
  /** Added to the logits of single tokens. */
  readonly logitBias: readonly (readonly [token: TokenId, bias: number])[]
  /**
   * Never draws an end-of-generation token; default false. Together with a constraint: only where
   * the constraint allows nothing else.
   */
  readonly ignoreEos: boolean
  /** Constrains the output; default: no constraint. */
  readonly constraint?: OutputConstraint
  /** Samplers of plug-ins, applied in this order before all others; default: none. */
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
  ...(Object.fromEntries(samplingRows.map(([name, field]) => [name, field.default])) as Record<
    Exclude<SamplingNumber, 'mirostat'>,
    number
  >),
  mirostat: 0,
  drySequenceBreakers: Object.freeze(['\n', ':', '"', '*']),
  logitBias: [],
  ignoreEos: false,
})
