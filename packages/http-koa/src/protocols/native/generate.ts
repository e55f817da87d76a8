import { type EngineClient, type GenerateRequest, defined } from '@cllm/core'
import { z } from 'zod'
import {
  commonFields,
  commonSettings,
  defaultsFields,
  usualFields,
} from '../../fields/generation-fields.js'
import { boolean, integer, largest, list, name, object, stop, text } from '../../fields/fields.js'
import { requestFor } from '../../request/build-request.js'
import type { ProtocolDefaults } from '../../request/build-request.js'
import { errorBody } from '../../errors/error-body.js'
import { logitBiasField, readLogitBias } from '../../request/logit-bias.js'
import { collect, startGeneration, tenantOf } from '../../request/generation.js'
import type { EndEvent, GenerationEvent } from '../../request/generation.js'
import { encoded, eventStream } from '../../routes/route.js'
import type { Answer, CallOf, Encoder, Route } from '../../routes/route.js'
import { describeTimings } from './request-report.js'

const fewSamplers = 'an array of up to 8 objects with a name'
/** A sampler; its name and options are checked by the engine. */
const samplerChoice = z
  .object({ name, options: object.optional() }, fewSamplers)
  .transform(({ name, options }) => ({ name, ...(options && { options }) }))

/** The body of `/generate` and `/generate_stream`. Messages say what is expected. */
export const generateSchema = z.object({
  model: name.optional(),
  prompt: text.min(1, 'a non-empty string'),
  max_tokens: integer(1, largest).optional(),
  ...usualFields,
  ...defaultsFields,
  seed: integer(0, 2 ** 32 - 1).optional(),
  logit_bias: logitBiasField.optional(),
  stop: stop.optional(),
  stream: boolean.optional(),
  samplers: list(samplerChoice, fewSamplers, { most: [8, fewSamplers] }).optional(),
  ...commonFields,
  cache: boolean.optional(),
  timings: boolean.optional(),
})

/** The engine's request for a body, with `defaults` for absent fields. */
async function toNativeRequest(
  fields: z.output<typeof generateSchema>,
  client: EngineClient,
  defaults: ProtocolDefaults,
): Promise<GenerateRequest> {
  const { logit_bias: bias } = fields
  const settings = {
    ...commonSettings(fields),
    samplers: fields.samplers,
    stop: fields.stop,
    cache: fields.cache,
    maxTokens: fields.max_tokens,
    logitBias: bias && (await readLogitBias(client, bias)),
  }
  return requestFor(client, { text: fields.prompt }, settings, defaults)
}

/** The context of the native protocol's handlers. */
export interface NativeContext {
  readonly version: string
  readonly defaults: ProtocolDefaults
  readonly maxQueuedRequests: number
  /** The routes that `GET /` lists. */
  readonly routes: readonly Pick<Route, 'method' | 'path' | 'summary'>[]
  /** The number of requests, and the sum of their waits for a slot in milliseconds. */
  readonly waits: { count: number; ms: number }
}

function noteWait({ waits }: NativeContext, { timings }: EndEvent): void {
  waits.count++
  waits.ms += timings.queueMs
}

type GenerateCall = CallOf<typeof generateSchema>

/**
 * `POST /generate`: answers with the whole text, or with `stream: true` with a server-sent event per token. A
 * refused request gets an HTTP error; a later failure ends the stream with an error event.
 */
export async function generate(
  call: GenerateCall,
  native: NativeContext,
  streams = call.fields.stream,
): Promise<Answer> {
  const { fields, id: named } = call
  const tenant = tenantOf(call)
  const { client } = call.open(fields.model)
  const read = await toNativeRequest(fields, client, native.defaults)
  const request = { ...read, ...defined({ id: named, tenant }) }
  const generation = await startGeneration(call, client, request)
  const { id, events } = generation
  const hasTimings = fields.timings === true
  if (streams === true) {
    return encoded(eventStream, events, (write) => tokens(id, hasTimings, native, write))
  }
  const { text, end } = await collect(generation)
  const { timings, usage } = end
  noteWait(native, end)
  const more = hasTimings ? { timings: describeTimings(timings, usage) } : {}
  return { success: true, data: { id, text, ...summary(end), max_tokens: read.maxTokens, ...more } }
}

/** `POST /generate_stream`: like `/generate`, but always streamed. */
export const generateStream = async (call: GenerateCall, native: NativeContext): Promise<Answer> =>
  await generate(call, native, true)

function tokens(
  id: string,
  hasTimings: boolean,
  native: NativeContext,
  write: (text: string) => void,
): Encoder<GenerationEvent> {
  const opening = `data: {"id":${JSON.stringify(id)},`
  const say = (text: string) => write(`${opening}"token":${JSON.stringify(text)},"done":false}\n\n`)
  return {
    push(event) {
      if (event.type === 'token') say(event.text)
      if (event.type !== 'end') return
      noteWait(native, event)
      if (event.text !== '') say(event.text)
      const count = event.usage.generatedTokens
      const more = hasTimings
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
