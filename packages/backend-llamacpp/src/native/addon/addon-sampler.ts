import { CllmError, type Sampler, type SamplingParams, type TokenId } from '@cllm/core'
import type { NativeSampler, NativeSamplerConfig } from './addon-types.js'
import type { PooledSampler, SamplerPool } from './sampler-pool.js'
import { biasesOf, seedAt, topKOf } from '../../sampling/chain/sampling-chain.js'
import { ConstraintTrack } from '../../sampling/constraint-track.js'
import type { SamplerConstraint } from '../../sampling/token-sampler.js'
import type { Vocabulary } from '../../text/vocabulary.js'

const noTokens = new Uint32Array(0)

/**
 * Draws the tokens of one sequence as a function of seed, position and history alone: before each
 * draw the native sampler is given a seed made of the request's and the position, and the latest
 * tokens when there are penalties.
 */
export class LlamaCppSampler implements Sampler {
  readonly #pool: SamplerPool
  #pooled: PooledSampler | undefined
  readonly #config: NativeSamplerConfig
  readonly #seed: number
  readonly #isRandom: boolean
  /** The sequence's tokens; only kept for penalties. */
  readonly #history: TokenId[] | undefined
  /** How many of them penalties look at. */
  readonly #window: number
  readonly #constraint: ConstraintTrack | undefined

  /** @param constraint - the grammar of what follows the first `promptTokens` tokens */
  constructor(
    pool: SamplerPool,
    vocabulary: Vocabulary,
    params: SamplingParams,
    tokens: readonly TokenId[],
    constraint?: SamplerConstraint,
  ) {
    this.#config = configOf(params, vocabulary)
    if (constraint !== undefined) {
      const { grammar, promptTokens } = constraint
      this.#constraint = new ConstraintTrack(grammar, vocabulary, tokens, promptTokens)
      this.#constraint.limit(this.#config)
    }
    this.#seed = params.seed
    this.#isRandom = params.temperature > 0
    this.#history = hasPenalties(params) ? tokens.slice() : undefined
    this.#window = params.penaltyLastN
    this.#pool = pool
    this.#pooled = pool.take()
    if (!this.#changes) this.#pooled.apply(this.#config)
  }

  /** @throws CllmError `backend_failed` when it was disposed of */
  check(): void {
    this.#own()
  }

  /** The native sampler, ready for {@link prepare}d draws. */
  get native(): NativeSampler {
    return this.#own().native
  }

  /**
   * Prepares the draw of the token after `position`.
   * @param tokens - the tokens of the batch item, starting at position `start`
   */
  prepare(position: number, start: number, tokens: readonly TokenId[]): void {
    const pooled = this.#own()
    if (!this.#changes) return
    const config = this.#config
    if (this.#history !== undefined) {
      config.repeatPenaltyTokens = this.#latest(this.#history, position, start, tokens)
    }
    if (this.#isRandom) config.seed = seedAt(this.#seed, position)
    this.#constraint?.prepare(config, position, start, tokens)
    pooled.apply(config)
  }

  /** Records the drawn token. */
  onToken(token: TokenId): void {
    this.#constraint?.onToken(token)
  }

  dispose(): void {
    if (this.#pooled === undefined) return
    // The native sampler would keep the grammar's state.
    if (this.#constraint !== undefined) this.#pooled.apply({ temperature: 0, seed: 0 })
    this.#pool.give(this.#pooled)
    this.#constraint?.dispose()
    this.#pooled = undefined
  }

  /** Whether draws differ in their configuration. */
  get #changes(): boolean {
    return this.#isRandom || this.#history !== undefined || this.#constraint !== undefined
  }

  #own(): PooledSampler {
    if (this.#pooled !== undefined) return this.#pooled
    throw new CllmError('backend_failed', 'the sampler is used after it was disposed of')
  }

  #latest(
    history: TokenId[],
    position: number,
    start: number,
    tokens: readonly TokenId[],
  ): Uint32Array {
    if (start > history.length) {
      throw new CllmError(
        'backend_failed',
        `the sampler knows ${history.length} tokens of its sequence, and is used at ${start}`,
      )
    }
    history.length = start
    for (let index = 0; index <= position - start; index++) history.push(tokens[index] ?? 0)
    return Uint32Array.from(history.slice(-this.#window))
  }
}

function hasPenalties(params: SamplingParams): boolean {
  const { repetitionPenalty, presencePenalty, frequencyPenalty, penaltyLastN } = params
  if (penaltyLastN === 0) return false
  return repetitionPenalty !== 1 || presencePenalty !== 0 || frequencyPenalty !== 0
}

function configOf(params: SamplingParams, vocabulary: Vocabulary): NativeSamplerConfig {
  const { temperature, topP, minP } = params
  const biases = biasesOf(params, vocabulary)
  const candidates = topKOf(params, vocabulary.size)
  return {
    temperature,
    seed: 0,
    ...(temperature > 0 && candidates > 0 ? { topK: candidates } : {}),
    ...(temperature > 0 && topP < 1 ? { topP } : {}),
    ...(temperature > 0 && minP > 0 ? { minP } : {}),
    ...(hasPenalties(params)
      ? {
          repeatPenalty: params.repetitionPenalty,
          repeatPenaltyPresencePenalty: params.presencePenalty,
          repeatPenaltyFrequencyPenalty: params.frequencyPenalty,
          repeatPenaltyMaxTokens: Math.min(params.penaltyLastN, 2 ** 31 - 1),
          repeatPenaltyTokens: noTokens,
        }
      : {}),
    ...(biases.size > 0
      ? {
          tokenBiasKeys: Uint32Array.from(biases.keys()),
          tokenBiasValues: Float32Array.from(biases.values()),
        }
      : {}),
  }
}
