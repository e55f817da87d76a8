import { CllmError, type OutputLogprobs, type TokenId, type TokenLogprob } from '@cllm/core'
import type { AddonContext, NativeLogits, NativeSamplerConfig } from './addon-types.js'
import type { PooledSampler, SamplerPool } from './sampler-pool.js'

/** So far up that the token is the likeliest one, and small enough for a float32 to keep 4 digits. */
const lift = 512

/**
 * The model's own distribution, read by samplers that change nothing, on the logits of a token that
 * another sampler has drawn. Asking the drawing sampler would give what is left after temperature and
 * cuts, and would sort the whole vocabulary.
 */
export class LogprobReader {
  #samplers: { readonly greedy: PooledSampler; readonly likeliest: PooledSampler } | undefined

  constructor(
    private readonly pool: SamplerPool,
    private readonly context: AddonContext,
  ) {}

  /** @param index - of the drawn token's logits in the batch */
  async read(index: number, token: TokenId, count: number): Promise<OutputLogprobs> {
    const { greedy, likeliest } = (this.#samplers ??= {
      greedy: this.pool.take(),
      likeliest: this.pool.take(),
    })
    const { likeliestToken, largest, weight } = await this.#largest(index, greedy, {
      temperature: 0,
      seed: 0,
    })
    const logOfAll = largest + Math.log(weight)
    const top = count === 0 ? [] : await this.#top(index, likeliest, count)
    const known = top.find((other) => other.token === token)?.logprob
    const own = token === likeliestToken ? largest : known
    const logit = own ?? (await this.#logitOf(index, token, greedy))
    return {
      logprob: Math.min(0, logit - logOfAll),
      top: top.map((other) => ({ ...other, logprob: Math.min(0, other.logprob - logOfAll) })),
    }
  }

  /** The logit of any token: with a bias that makes it the largest. */
  async #logitOf(index: number, token: TokenId, sampler: PooledSampler): Promise<number> {
    const { largest: lifted } = await this.#largest(index, sampler, {
      temperature: 0,
      seed: 0,
      tokenBiasKeys: Uint32Array.of(token),
      tokenBiasValues: Float32Array.of(lift),
    })
    return lifted - lift
  }

  async #largest(index: number, sampler: PooledSampler, config: NativeSamplerConfig) {
    sampler.apply(config)
    const drawn = [[], false, false, true, 0] as const
    const found = await this.context.sampleToken(index, sampler.native, false, false, drawn, true)
    const [first] = pairsOf(found)
    if (first === undefined || found[4] === undefined) throw noLogits()
    return { likeliestToken: first.token, largest: first.logprob, weight: found[4] }
  }

  /** The likeliest tokens with their logits. */
  async #top(index: number, sampler: PooledSampler, count: number): Promise<TokenLogprob[]> {
    sampler.apply({ temperature: 1, topK: count, seed: 0 })
    const top = [[], false, false, false, count] as const
    const pairs = pairsOf(
      await this.context.sampleToken(index, sampler.native, false, false, top, false),
    )
    return pairs.sort((a, b) => b.logprob - a.logprob || a.token - b.token).slice(0, count)
  }
}

/** Ids with logits; the list may have one twice. */
function pairsOf([, , , logits = []]: NativeLogits): TokenLogprob[] {
  const found = new Map<TokenId, number>()
  for (let at = 0; at + 1 < logits.length; at += 2) found.set(logits[at]!, logits[at + 1]!)
  return Array.from(found, ([token, logprob]) => ({ token, logprob }))
}

const noLogits = (): CllmError => new CllmError('backend_failed', 'llama.cpp gave no logits')
