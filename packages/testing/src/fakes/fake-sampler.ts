import { type Sampler, type SamplingParams, type TokenId, hashTokens } from '@cllm/core'

/** The sampler of {@link FakeBackend}: remembers which tokens it knows, to be checked at each draw. */
export class FakeSampler implements Sampler {
  /** The hash of the tokens that it was made with and has drawn since. */
  history: number
  disposed = false

  constructor(
    readonly params: SamplingParams,
    tokens: readonly TokenId[],
    emptyHash: number,
    private readonly onDispose: (sampler: FakeSampler) => void,
  ) {
    this.history = hashTokens(emptyHash, tokens)
  }

  dispose(): void {
    this.onDispose(this)
    this.disposed = true
  }
}

/**
 * Chooses a token as the parameters say. Randomness is Gumbel noise by (seed, position, token):
 * adding it to the logits and taking the largest draws from their softmax.
 *
 * @param logits one per token of the vocabulary; changed in place
 * @param content all tokens before the one that is drawn
 */
export function sampleToken(
  logits: Float64Array,
  content: readonly TokenId[],
  params: SamplingParams,
  isEndOfGeneration: (token: TokenId) => boolean,
): TokenId {
  penalize(logits, content, params)
  for (const [token, bias] of params.logitBias) logits[token] = (logits[token] ?? NaN) + bias
  if (params.ignoreEos) logits.forEach((_, id) => isEndOfGeneration(id) && (logits[id] = -Infinity))
  if (params.temperature === 0) return largest(logits)
  cut(logits, params)
  return largest(
    logits.map((logit, id) => {
      const uniform = (hashTokens(params.seed, [content.length, id]) + 0.5) / 2 ** 32
      return logit / params.temperature - Math.log(-Math.log(uniform))
    }),
  )
}

function penalize(logits: Float64Array, content: readonly TokenId[], params: SamplingParams): void {
  const { repetitionPenalty, presencePenalty, frequencyPenalty, penaltyLastN } = params
  if (repetitionPenalty === 1 && presencePenalty === 0 && frequencyPenalty === 0) return
  const counts = new Map<TokenId, number>()
  for (const token of content.slice(Math.max(0, content.length - penaltyLastN))) {
    counts.set(token, (counts.get(token) ?? 0) + 1)
  }
  for (const [token, count] of counts) {
    const logit = logits[token] ?? NaN
    const repeated = logit > 0 ? logit / repetitionPenalty : logit * repetitionPenalty
    logits[token] = repeated - presencePenalty - frequencyPenalty * count
  }
}

/** Removes what top-k, top-p and min-p leave out, in this order. */
function cut(logits: Float64Array, { topK, topP, minP }: SamplingParams): void {
  if (topK === 0 && topP === 1 && minP === 0) return
  const order = [...logits.keys()].sort((a, b) => (logits[b] ?? NaN) - (logits[a] ?? NaN))
  const weights = order.map((id) => Math.exp((logits[id] ?? NaN) - (logits[order[0] ?? 0] ?? NaN)))
  const kept = topK === 0 ? order.length : Math.min(topK, order.length)
  const total = weights.slice(0, kept).reduce((sum, weight) => sum + weight, 0)
  let before = 0
  order.forEach((id, rank) => {
    const weight = weights[rank] ?? NaN
    if (rank >= kept || before >= topP * total || weight < minP) logits[id] = -Infinity
    before += weight
  })
}

const largest = (values: Float64Array): TokenId =>
  values.reduce((best, value, id) => (value > (values[best] ?? NaN) ? id : best), 0)
