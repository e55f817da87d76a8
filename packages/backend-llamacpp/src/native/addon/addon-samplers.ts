import type { OutputLogprobs, Sampler, SamplingParams, TokenId } from '@cllm/core'
import type { SamplerFactory, SamplerParts, TokenSampler } from '../../sampling/token-sampler.js'
import type { Vocabulary } from '../../text/vocabulary.js'
import { LlamaCppSampler } from './addon-sampler.js'
import type { AddonContext, NativeSampler } from './addon-types.js'
import { LogprobReader } from './logprob-reader.js'
import { SamplerPool } from './sampler-pool.js'

/** Samplers of node-llama-cpp's addon, which draws on a thread of its own. */
export class AddonSamplers implements SamplerFactory {
  readonly seesLogits = false
  readonly #pool: SamplerPool
  readonly #context: AddonContext
  readonly #vocabulary: Vocabulary
  readonly #logprobs: LogprobReader

  constructor(create: () => NativeSampler, context: AddonContext, vocabulary: Vocabulary) {
    this.#pool = new SamplerPool(create)
    this.#context = context
    this.#vocabulary = vocabulary
    this.#logprobs = new LogprobReader(this.#pool, context)
  }

  create(
    params: SamplingParams,
    tokens: readonly TokenId[],
    { constraint }: SamplerParts = {},
  ): TokenSampler {
    const sampler = new LlamaCppSampler(this.#pool, this.#vocabulary, params, tokens, constraint)
    return new AddonSampler(sampler, this.#context, this.#logprobs)
  }

  made(sampler: Sampler | undefined): sampler is TokenSampler {
    return sampler instanceof AddonSampler
  }

  dispose(): void {
    this.#pool.dispose()
  }
}

class AddonSampler implements TokenSampler {
  readonly #sampler: LlamaCppSampler
  readonly #context: AddonContext
  readonly #logprobs: LogprobReader

  constructor(sampler: LlamaCppSampler, context: AddonContext, logprobs: LogprobReader) {
    this.#sampler = sampler
    this.#context = context
    this.#logprobs = logprobs
  }

  prepare(position: number, start: number, tokens: readonly TokenId[]): void {
    this.#sampler.prepare(position, start, tokens)
  }

  async draw(index: number): Promise<TokenId> {
    const token = await this.#context.sampleToken(index, this.#sampler.native)
    if (token >= 0) this.#sampler.onToken(token)
    return token
  }

  logprobs(index: number, token: TokenId, count: number): Promise<OutputLogprobs> {
    return this.#logprobs.read(index, token, count)
  }

  dispose(): void {
    this.#sampler.dispose()
  }
}
