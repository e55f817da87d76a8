import type { EngineClient } from '@cllm/core'
import { errorBody } from '../../errors/error-body.js'
import {
  collect,
  type EndEvent,
  type GenerationEvent,
  startGeneration,
} from '../../request/generation.js'
import { tenantOf } from '../../request/request-headers.js'
import type { Answer, CallOf } from '../../routes/call.js'
import { encoded, type Encoder, eventStream } from '../../routes/reply.js'
import { type generateSchema, type NativeRequest, toNativeRequest } from './generate-request.js'
import type { NativeContext } from './native-context.js'
import { describeTimings } from './request-report.js'
import { withModelDefaults } from '../../request/build-request.js'

type GenerateCall = CallOf<typeof generateSchema>

/** `POST /generate`: the whole text at once, or with `stream: true` as `/generate_stream`. */
export async function generate(call: GenerateCall, native: NativeContext): Promise<Answer> {
  if (call.fields.stream === true) return await generateStream(call, native)
  const { client, read } = prepare(call, native)
  const generation = await startGeneration(call, client, read.request)
  const { id } = generation
  const { text, end } = await collect(generation)
  const { timings, usage } = end
  native.waitTimes.add(timings.queueMs)
  const more = read.timings ? { timings: describeTimings(timings, usage) } : {}
  const data = { id, text, ...summary(end), max_tokens: read.maxTokens, ...more }
  return { success: true, data }
}

/**
 * `POST /generate_stream`: server-sent events, one per token. A refused request gets a plain HTTP error; a
 * later failure ends the stream with an error event.
 */
export async function generateStream(call: GenerateCall, native: NativeContext): Promise<Answer> {
  const { client, read } = prepare(call, native)
  const { id, events } = await startGeneration(call, client, read.request)
  return encoded(eventStream, events, (write) => tokens(id, read, native, write))
}

function prepare(
  call: GenerateCall,
  { defaults }: NativeContext,
): { readonly client: EngineClient; readonly read: NativeRequest } {
  const { fields, id } = call
  const tenant = tenantOf(call)
  const { client } = call.open(fields.model)
  const read = toNativeRequest(fields, withModelDefaults(client, defaults))
  const named = { ...(id !== undefined && { id }), ...(tenant !== undefined && { tenant }) }
  return { client, read: { ...read, request: { ...read.request, ...named } } }
}

function tokens(
  id: string,
  { timings }: NativeRequest,
  { waitTimes }: NativeContext,
  write: (text: string) => void,
): Encoder<GenerationEvent> {
  const opening = `data: {"id":${JSON.stringify(id)},`
  const say = (text: string) => write(`${opening}"token":${JSON.stringify(text)},"done":false}\n\n`)
  return {
    push(event) {
      if (event.type === 'token') say(event.text)
      if (event.type !== 'end') return
      waitTimes.add(event.timings.queueMs)
      if (event.text !== '') say(event.text)
      const count = event.usage.generatedTokens
      const more = timings
        ? `,"timings":${JSON.stringify(describeTimings(event.timings, event.usage))}`
        : ''
      write(`${opening}"token":"","done":true,"generated_tokens":${count}${more}}\n\n`)
    },
    fail: (error) =>
      write(`${opening}"error":${JSON.stringify(errorBody(error).error)},"done":true}\n\n`),
  }
}

function summary({ reason, usage, timings }: EndEvent) {
  const seconds = timings.totalMs / 1000
  return {
    response_time: seconds,
    tokens_per_second: seconds > 0 ? usage.generatedTokens / seconds : 0,
    generated_tokens: usage.generatedTokens,
    prompt_tokens: usage.promptTokens,
    cached_tokens: usage.cachedTokens,
    finish_reason: reason,
  }
}
