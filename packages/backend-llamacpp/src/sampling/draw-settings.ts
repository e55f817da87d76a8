import { mixBits, type SamplingParams, type TokenId } from '@cllm/core'
import type { Vocabulary } from '../text/vocabulary.js'

/** llama.cpp draws a random seed when it is given this one. */
const randomSeed = 0xffffffff

/** The golden ratio in 32 bits: odd, so that a product with it is a bijection. */
const golden = 0x9e3779b9

/**
 * The seed of the draw after `position`: a hash of both, one-to-one in the position, so that two
 * positions of a request never share a seed. The mixer is MurmurHash3's (A. Appleby).
 */
export function seedAt(seed: number, position: number): number {
  const hash = mixBits((mixBits(seed) + Math.imul(position, golden)) | 0)
  return hash === randomSeed ? 0 : hash
}

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

/**
 * In vocabularies larger than this a request with `top_p` and without `top_k` draws from the
 * likeliest {@link nucleusCandidates}.
 */
export const largeVocabulary = 65_536

/**
 * How many tokens `top_p` looks at in a large vocabulary: sorting all of 151,936 takes up to
 * 7 ms a token, 8,192 take 0.8. The probability beyond them was 0.00002 with a well-trained model
 * and 0.01 with a 2-bit one (see docs/decisions/0005-nucleus-candidates.md).
 */
export const nucleusCandidates = 8192

/** The `top_k` of a request's draws; 0 for none. */
export function topKOf({ topK, topP }: SamplingParams, vocabularySize: number): number {
  if (topK > 0) return topK
  return topP < 1 && vocabularySize > largeVocabulary ? nucleusCandidates : 0
}
