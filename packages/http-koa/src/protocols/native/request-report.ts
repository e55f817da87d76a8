import type { EngineDirectory, RequestReport, Timings, Usage } from '@cllm/core'
import { CllmError, defined } from '@cllm/core'
import type { Answer, Call } from '../../routes/route.js'
import { inSnakeCase } from '../../fields/fields.js'
import { loadedModels } from '../../engines/model-queries.js'
import { requestSentences } from './request-sentences.js'

/** `GET /requests/{id}`: the history of a request of any engine. */
export async function requestReport(call: Call): Promise<Answer> {
  const { id = '' } = call.params
  const report = await find(call.engines, id)
  const { usage, timings, timeline, forecast, parting, queuePosition, ...rest } = report
  return {
    success: true,
    data: {
      ...rest,
      ...defined({
        queue_position: queuePosition,
        forecast: forecast && inSnakeCase(forecast),
        parting: parting && inSnakeCase(parting),
      }),
      timings: describeTimings(timings, usage),
      timeline: timeline.map(inSnakeCase),
      sentences: requestSentences(report),
    },
  }
}

async function find(directory: EngineDirectory, id: string): Promise<RequestReport> {
  const message = `No running or recently finished request has the id "${id}": expected the X-Request-Id or the id of an answer`
  let failure: unknown = new CllmError('request_not_found', message, { details: { id } })
  // An answer's id is that of its request with the sign of its kind before it.
  for (const name of new Set([id, id.replace(/^(?:chatcmpl-|cmpl-|msg_)/, '')])) {
    for (const model of loadedModels(directory)) {
      try {
        return await directory.open(model, { peek: true }).explain(name)
      } catch (error) {
        // An engine that is away must not hide what another one knows.
        if (!CllmError.isInstance(error) || error.code !== 'request_not_found') failure = error
      }
    }
  }
  throw failure
}

/** A request's timings, for `"timings": true` and `GET /requests/{id}`. */
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
    ...(timings.draftTokens !== undefined && {
      draft_tokens: timings.draftTokens,
      accepted_tokens: timings.acceptedTokens ?? 0,
    }),
  }
}
