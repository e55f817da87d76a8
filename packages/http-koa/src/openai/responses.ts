import { abortOnClose } from '../abort-on-close.js'
import { collectAnswer } from '../chat/collect-answer.js'
import type { KoaContext } from '../koa-context.js'
import { startGeneration } from '../request/generation.js'
import { protocolDefaults, withOverrides } from '../request/protocol-defaults.js'
import { readFields } from '../request/read-fields.js'
import { openModel, type OpenAiContext } from './openai-context.js'
import { newItem, responseEnd, responseHead } from './response-object.js'
import { streamResponse } from './response-stream.js'
import { responsesSchema, toResponsesRequest } from './responses-request.js'

/** `POST /v1/responses`, whole or streamed. Nothing is stored. */
export async function responses(ctx: KoaContext, openAi: OpenAiContext): Promise<void> {
  const fields = await readFields(ctx, responsesSchema, openAi.unknownFields)
  const { model, client } = openModel(openAi.directory, fields.model)
  const defaults = withOverrides(protocolDefaults['/v1/responses'], openAi.overrides)
  const { request, form } = await toResponsesRequest(fields, client, defaults)
  const generation = await startGeneration(client, request, abortOnClose(ctx))
  const head = responseHead(ctx, fields, model)
  if (fields.stream === true) {
    await streamResponse(ctx, generation, form, head)
    return
  }
  const { content, reasoning, end } = await collectAnswer(generation, form)
  const thoughts = reasoning === '' ? [] : [{ ...newItem(ctx, 'reasoning'), text: reasoning }]
  const message = { ...newItem(ctx, 'message'), text: content }
  ctx.body = { ...head, ...responseEnd(end, [...thoughts, message]) }
}
