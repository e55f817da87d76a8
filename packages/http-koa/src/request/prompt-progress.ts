import type { PromptProgress } from '@cllm/core'

/** Progress in llama-server's form; `timeMs` from the request's start. */
export const promptProgress = (event: PromptProgress, timeMs: number) => ({
  total: event.promptTokens,
  cache: event.cachedTokens,
  processed: event.processedTokens,
  time_ms: Math.round(timeMs),
})
