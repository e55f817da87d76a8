import { batchPriority, CllmError, type EngineClient, type GenerateRequest } from '@cllm/core'
import { z } from 'zod'
import type { CallOf } from '../../routes/route.js'
import { integer, largest, name, number, text } from '../../fields/fields.js'
import type { EndEvent } from '../../request/generation.js'
import { sum } from '../../request/usage.js'
import type { NativeContext } from './generate.js'

/** The body of `POST /benchmark`. */
export const benchmarkSchema = z.object({
  model: name.optional(),
  requests: integer(1, 1000).default(40),
  concurrency: integer(1, 1024).default(8),
  max_tokens: integer(1, largest).default(50),
  prompt: text.min(1, 'a non-empty string').default('Hello, world! How are you today?'),
  temperature: number(0, 2).default(0.7),
})

/**
 * `POST /benchmark`: runs requests on the serving engine, without the prefix cache, at the given concurrency but at
 * most one per slot. Requests of clients go first. The figures exclude HTTP and clients; `cllm bench` includes them.
 */
export async function benchmark(call: CallOf<typeof benchmarkSchema>, native: NativeContext) {
  const { fields: options, clock, signal } = call
  const { client } = call.open(options.model)
  const { slots } = await client.statistics()
  const request: GenerateRequest = {
    prompt: { text: options.prompt },
    maxTokens: options.max_tokens,
    sampling: { temperature: options.temperature },
    fallbackSampling: native.defaults.sampling,
    cache: false,
    priority: batchPriority,
  }
  const begin = clock.now()
  const finished: EndEvent[] = []
  let next = 0
  const worker = async (): Promise<void> => {
    while (next++ < options.requests && !signal.aborted) {
      const result = await runOne(client, request, signal)
      if (result !== undefined) finished.push(result)
    }
  }
  // more requests would only wait in the queue, ahead of clients that arrive later
  const atOnce = Math.min(options.concurrency, slots.length)
  await Promise.all(Array.from({ length: atOnce }, worker))
  const seconds = (clock.now() - begin) / 1000
  return { success: true, data: summarize(finished, options.requests, seconds) }
}

/** Runs a request; undefined if it failed, which is counted while the others go on. */
async function runOne(client: EngineClient, request: GenerateRequest, signal: AbortSignal) {
  try {
    // a signal for each request, as Node warns of a leak if more than ten listen to one
    for await (const event of client.submit(request, { signal: AbortSignal.any([signal]) })) {
      if (event.type === 'end') return event
    }
  } catch (error) {
    // An invalid request is the caller's mistake, and all requests are the same.
    if (!CllmError.isInstance(error) || error.status === 400) throw error
  }
  return undefined
}

function summarize(finished: readonly EndEvent[], requests: number, totalSeconds: number) {
  const times = finished.map(({ timings }) => timings.totalMs / 1000)
  const tokens = finished.map(({ usage }) => usage.generatedTokens)
  const speeds = tokens.map((count, index) => count / Math.max(times[index]!, 1e-9))
  const total = sum(tokens)
  return {
    total_requests: requests,
    successful_requests: finished.length,
    failed_requests: requests - finished.length,
    avg_response_time: average(times),
    min_response_time: times.length === 0 ? 0 : Math.min(...times),
    max_response_time: Math.max(0, ...times),
    avg_throughput: totalSeconds > 0 ? total / totalSeconds : 0,
    avg_tokens_per_second: average(speeds),
    total_tokens_processed: total,
    avg_generated_tokens: average(tokens),
    total_time: totalSeconds,
  }
}

const average = (values: readonly number[]) => sum(values) / Math.max(1, values.length)
