import {
  CllmError,
  type OutputLogprobs,
  type SamplingParams,
  type TokenId,
  type TokenLogprob,
} from '@cllm/core'
import type {
  AddonContext,
  NativeLogits,
  NativeSampler,
  NativeSamplerConfig,
  WantedLogits,
} from './addon-bindings.js'
import { biasesOf, hasPenalties, seedAt, topKOf } from '../../sampling/chain/sampling-chain.js'
import {
  type ConstraintTrack,
  listed,
  noneAllowed,
  withinGrammar,
} from '../../sampling/constraint-track.js'
import {
  knownTokens,
  type SamplerFactory,
  type SamplerParts,
  TokenSampler,
} from '../../sampling/token-sampler.js'
import type { Vocabulary } from '../../text/vocabulary.js'

/** A native sampler that remembers its seed. */
class PooledSampler {
  #seed: number | undefined

  constructor(readonly native: NativeSampler) {}

  /** Configures the sampler for one draw, such that the same configuration always draws the same token. */
  apply(config: NativeSamplerConfig): void {
    // with an unchanged seed, llama.cpp would continue its random sequence
    if (config.temperature > 0 && config.seed === this.#seed) {
      this.native.applyConfig({ ...config, seed: (config.seed ^ 1) >>> 0 })
    }
    this.native.applyConfig(config)
    this.#seed = config.seed
  }
}

/** Added to a token's logit: enough to make it the likeliest, and small enough for a float32 to keep 4 digits. */
const lift = 512

/**
 * Samplers of node-llama-cpp's addon, which draws on its own thread. They are reused, as each keeps a list as long as
 * the vocabulary (1.8 MB at 150,000 entries) that is only freed long after the sampler was disposed of.
 */
export class AddonSamplers implements SamplerFactory {
  readonly seesLogits = false
  readonly #free: PooledSampler[] = []
  #reader: PooledSampler | undefined

  constructor(
    private readonly createNative: () => NativeSampler,
    readonly context: AddonContext,
    readonly vocabulary: Vocabulary,
  ) {}

  create(params: SamplingParams, tokens: readonly TokenId[], parts?: SamplerParts): TokenSampler {
    return new AddonSampler(this, params, tokens, parts)
  }

  take(): PooledSampler {
    return this.#free.pop() ?? new PooledSampler(this.createNative())
  }

  give(sampler: PooledSampler): void {
    this.#free.push(sampler)
  }

  /** Disposes of the free samplers and of the one that reads; samplers in use are not affected. */
  dispose(): void {
    if (this.#reader !== undefined) this.give(this.#reader)
    this.#reader = undefined
    for (const { native } of this.#free.splice(0)) native.dispose()
  }

  /**
   * The log probabilities in the model's own distribution, for a token that another sampler has drawn. They are read by
   * a sampler that changes nothing: the drawing sampler would return them after temperature and truncation, and sort
   * the whole vocabulary.
   * @param index - the index of the drawn token's logits in the batch
   */
  async logprobs(index: number, token: TokenId, count: number): Promise<OutputLogprobs> {
    const { likeliest, largest, weight } = await this.#largest(index, { temperature: 0, seed: 0 })
    const logOfAll = largest + Math.log(weight)
    const top = count === 0 ? [] : await this.#top(index, count)
    const known = top.find((other) => other.token === token)?.logprob
    const own = token === likeliest ? largest : known
    const logit = own ?? (await this.#logitOf(index, token))
    return {
      logprob: Math.min(0, logit - logOfAll),
      top: top.map((other) => ({ ...other, logprob: Math.min(0, other.logprob - logOfAll) })),
    }
  }

  /** The logit of any token, found by a bias that makes it the largest. */
  async #logitOf(index: number, token: TokenId): Promise<number> {
    const bias = biased(new Map([[token, lift]]))
    const { largest: lifted } = await this.#largest(index, { temperature: 0, seed: 0, ...bias })
    return lifted - lift
  }

  async #largest(index: number, config: NativeSamplerConfig) {
    const logits = await this.#read(index, config, [[], false, false, true, 0], true)
    const [first] = pairsOf(logits)
    if (first === undefined || logits[4] === undefined) {
      throw new CllmError('backend_failed', 'llama.cpp gave no logits')
    }
    return { likeliest: first.token, largest: first.logprob, weight: logits[4] }
  }

  /** The likeliest tokens with their logits. */
  async #top(index: number, count: number): Promise<TokenLogprob[]> {
    const config = { temperature: 1, topK: count, seed: 0 }
    const top = pairsOf(await this.#read(index, config, [[], false, false, false, count], false))
    return top.sort((a, b) => b.logprob - a.logprob || a.token - b.token).slice(0, count)
  }

  async #read(
    index: number,
    config: NativeSamplerConfig,
    wanted: WantedLogits,
    weight: boolean,
  ): Promise<NativeLogits> {
    this.#reader ??= this.take()
    this.#reader.apply(config)
    const { native } = this.#reader
    return await this.context.sampleToken(index, native, false, false, wanted, weight)
  }
}

/** The ids with their logits, without duplicates. */
function pairsOf([, , , logits = []]: NativeLogits): TokenLogprob[] {
  const found = new Map<TokenId, number>()
  for (let at = 0; at + 1 < logits.length; at += 2) found.set(logits[at]!, logits[at + 1]!)
  return Array.from(found, ([token, logprob]) => ({ token, logprob }))
}

const noTokens = new Uint32Array(0)

/**
 * Draws the tokens of one sequence as a function of seed, position and history alone: before each
 * draw the native sampler is given a seed made of the request's and the position, and the latest
 * tokens when there are penalties.
 */
class AddonSampler extends TokenSampler {
  #pooled: PooledSampler | undefined
  readonly #biases: ReadonlyMap<TokenId, number>
  readonly #config: NativeSamplerConfig
  readonly #seed: number
  readonly #isRandom: boolean
  /** The sequence's tokens; only kept for penalties. */
  readonly #history: TokenId[] | undefined
  /** The number of last tokens to which penalties apply. */
  readonly #window: number
  readonly #constraint: ConstraintTrack | undefined
  /** Whether the configuration changes from draw to draw. */
  readonly #changes: boolean

  constructor(
    private readonly samplers: AddonSamplers,
    params: SamplingParams,
    tokens: readonly TokenId[],
    { constraint }: SamplerParts = {},
  ) {
    super()
    const { vocabulary } = samplers
    this.#biases = biasesOf(params, vocabulary)
    this.#config = { ...configOf(params, vocabulary), ...biased(this.#biases) }
    this.#constraint = constraint
    if (constraint !== undefined) this.forced = constraint.forced
    this.#seed = params.seed
    this.#isRandom = params.temperature > 0
    this.#window = params.penaltyLastN
    if (this.#config.repeatPenalty !== undefined) this.#history = tokens.slice()
    this.#changes = this.#isRandom || this.#history !== undefined || this.#constraint !== undefined
    this.#pooled = samplers.take()
    if (!this.#changes) this.#pooled.apply(this.#config)
  }

  prepare(position: number, start: number, tokens: readonly TokenId[]): void {
    const pooled = this.#own()
    if (!this.#changes) return
    const config = this.#config
    if (this.#history !== undefined) {
      const known = knownTokens(this.#history, position, start, tokens)
      config.repeatPenaltyTokens = Uint32Array.from(known.slice(-this.#window))
    }
    if (this.#isRandom) config.seed = seedAt(this.#seed, position)
    const constraint = this.#constraint
    const holds = constraint?.prepare(position, start, tokens) === true
    pooled.apply(holds ? { ...config, ...this.#limits(constraint.mask()) } : config)
  }

  async draw(index: number): Promise<TokenId> {
    const token = await this.samplers.context.sampleToken(index, this.#own().native)
    if (token >= 0) this.#constraint?.take(token)
    return token
  }

  logprobs(index: number, token: TokenId, count: number): Promise<OutputLogprobs> {
    return this.samplers.logprobs(index, token, count)
  }

  dispose(): void {
    if (this.#pooled === undefined) return
    this.samplers.give(this.#pooled)
    this.#pooled = undefined
  }

  /** The biases while a grammar applies: they forbid all tokens that are not in the mask. */
  #limits(mask: Uint32Array): Partial<NativeSamplerConfig> {
    if (mask.every((word) => word === 0)) throw noneAllowed()
    const { vocabulary } = this.samplers
    const biases = withinGrammar(this.#biases, vocabulary)
    for (let token = 0; token < vocabulary.size; token++) {
      if (((mask[token >> 5]! >> (token & 31)) & 1) === 0) biases.set(token, -Infinity)
    }
    return biased(biases)
  }

  #own(): PooledSampler {
    if (this.#pooled !== undefined) return this.#pooled
    throw new CllmError('backend_failed', 'the sampler is used after it was disposed of')
  }
}

function configOf(params: SamplingParams, vocabulary: Vocabulary): NativeSamplerConfig {
  const { temperature, topP, minP } = params
  const config: NativeSamplerConfig = { temperature, seed: 0 }
  const topK = topKOf(params, vocabulary.size)
  if (temperature > 0) {
    if (topK > 0) config.topK = topK
    if (topP < 1) config.topP = topP
    if (minP > 0) config.minP = minP
  }
  if (hasPenalties(params)) {
    config.repeatPenalty = params.repetitionPenalty
    config.repeatPenaltyPresencePenalty = params.presencePenalty
    config.repeatPenaltyFrequencyPenalty = params.frequencyPenalty
    config.repeatPenaltyMaxTokens = Math.min(params.penaltyLastN, 2 ** 31 - 1)
    config.repeatPenaltyTokens = noTokens
  }
  return config
}

function biased(biases: ReadonlyMap<TokenId, number>): Partial<NativeSamplerConfig> {
  if (biases.size === 0) return {}
  const { tokens, values } = listed(biases)
  return { tokenBiasKeys: tokens, tokenBiasValues: values }
}
