import type { Timings, Usage } from '@cllm/core'

/** How a request went, as `"timings": true` asks for it and `GET /requests/{id}` tells it. */
export function describeTimings(timings: Timings, usage: Usage) {
  return {
    queue_ms: timings.queueMs,
    prefill_ms: timings.prefillMs,
    decode_ms: timings.decodeMs,
    ttft_ms: timings.firstTokenMs,
    total_ms: timings.totalMs,
    prompt_tokens: usage.promptTokens,
    cached_tokens: usage.cachedTokens,
    generated_tokens: usage.generatedTokens,
    prefill_chunks: timings.prefillChunks,
    preemptions: timings.preemptions,
  }
}
