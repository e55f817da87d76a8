import type { GenerateEvent } from '@cllm/core'

type Progress = Extract<GenerateEvent, { type: 'progress' }>

/** Progress in llama-server's form; `timeMs` from the request's start. */
export const promptProgress = (event: Progress, timeMs: number) => ({
  total: event.promptTokens,
  cache: event.cachedTokens,
  processed: event.processedTokens,
  time_ms: Math.round(timeMs),
})
