import type { SamplingParams, TokenId } from '@cllm/core'
import type { Vocabulary } from '../text/vocabulary.js'

/**
 * What a request adds to the logits of single tokens, with `ignoreEos` as a bias too.
 * @throws CllmError `invalid_token`
 */
export function biasesOf(params: SamplingParams, vocabulary: Vocabulary): Map<TokenId, number> {
  const biases = new Map<TokenId, number>()
  for (const [token, bias] of params.logitBias) {
    vocabulary.check(token)
    biases.set(token, (biases.get(token) ?? 0) + bias)
  }
  if (params.ignoreEos) {
    for (const token of vocabulary.endOfGeneration) biases.set(token, -Infinity)
  }
  return biases
}
