import type { EngineClient } from '@cllm/core'
import type { KoaContext } from '../../routes/koa-context.js'
import { requestIdOf, tenantOf } from '../../request/request-headers.js'
import { withModelDefaults } from '../../request/model-defaults.js'
import { readJsonBody } from '../../body/read-json-body.js'
import { type EndEvent, startGeneration } from '../../request/generation.js'
import { parseFields } from '../../fields/parse-fields.js'
import { generateSchema, type NativeRequest, toNativeRequest } from './generate-request.js'
import { streamGeneration } from './generate-stream.js'
import type { NativeContext } from './native-context.js'
import { expectStream } from '../../stream/start-event-stream.js'
import { describeTimings } from './request-report.js'

/** `POST /generate`: the whole text at once, or with `stream: true` as `/generate_stream`. */
export async function generate(ctx: KoaContext, native: NativeContext): Promise<void> {
  const { client, request } = await readGenerateRequest(ctx, native)
  expectStream(ctx, request.stream)
  if (request.stream) await streamGeneration(ctx, native, client, request)
  else await answerWhole(ctx, native, client, request)
}

/** `POST /generate_stream`. */
export async function generateStream(ctx: KoaContext, native: NativeContext): Promise<void> {
  const { client, request } = await readGenerateRequest(ctx, native)
  expectStream(ctx, true)
  await streamGeneration(ctx, native, client, request)
}

async function readGenerateRequest(
  ctx: KoaContext,
  native: NativeContext,
): Promise<{ readonly client: EngineClient; readonly request: NativeRequest }> {
  const id = requestIdOf(ctx)
  const tenant = tenantOf(ctx)
  const body = await readJsonBody(ctx)
  native.unknownFields.warn(body, generateSchema.shape, ctx.state.transport.logger)
  const fields = parseFields(generateSchema, body)
  const client = native.directory.open(fields.model)
  const read = toNativeRequest(fields, withModelDefaults(client, native.defaults))
  const request = { ...read.request, id, ...(tenant === undefined ? {} : { tenant }) }
  return { client, request: { ...read, request } }
}

async function answerWhole(
  ctx: KoaContext,
  native: NativeContext,
  client: EngineClient,
  { request, maxTokens, timings }: NativeRequest,
): Promise<void> {
  const { id, events } = await startGeneration(ctx, client, request)
  let text = ''
  for await (const event of events) {
    text += event.text
    if (event.type === 'end') {
      native.waitTimes.add(event.timings.queueMs)
      const more = timings ? { timings: describeTimings(event.timings, event.usage) } : {}
      const data = { id, text, ...summary(event), max_tokens: maxTokens, ...more }
      ctx.body = { success: true, data }
    }
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
