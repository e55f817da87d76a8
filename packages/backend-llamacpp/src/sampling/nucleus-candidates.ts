import type { SamplingParams } from '@cllm/core'

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
