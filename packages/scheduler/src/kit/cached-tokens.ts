import type { SequenceView } from '@cllm/core'

/** Tokens of a waiting request that a slot holds. Looked up at each call. */
export function cachedTokens(request: SequenceView): number {
  return request.promptTokens + request.generatedTokens - request.remainingTokens
}
