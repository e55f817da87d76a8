import { collectAnswer } from '../../../chat/answer/collect-answer.js'
import type { KoaContext } from '../../../routes/koa-context.js'
import { countPrompt } from '../../../request/prompt-tokens.js'
import { startGeneration } from '../../../request/generation.js'
import { withOverrides } from '../../../request/protocol-defaults.js'
import { openAiDefaults } from '../openai-defaults.js'
import { expectStream } from '../../../stream/start-event-stream.js'
import { readFields } from '../../../fields/read-fields.js'
import { openModel } from '../../../engines/open-model.js'
import { customInput } from '../tools/custom-tools.js'
import type { OpenAiContext } from '../openai-context.js'
import { type ItemKind, newItem, responseEnd, responseHead } from './response-object.js'
import { streamResponse } from './response-stream.js'
import { responsesSchema, toResponsesRequest } from './responses-request.js'

/** `POST /v1/responses`, whole or streamed. Nothing is stored. */
export async function responses(ctx: KoaContext, openAi: OpenAiContext): Promise<void> {
  const fields = await readFields(ctx, responsesSchema, openAi.unknownFields)
  expectStream(ctx, fields.stream)
  const { model, client } = openModel(openAi.directory, fields.model)
  const defaults = withOverrides(openAiDefaults['/v1/responses'], openAi.overrides)
  const { request, form, customs } = await toResponsesRequest(
    fields,
    client,
    defaults,
    ctx.state.transport.logger,
  )
  const generation = await startGeneration(ctx, client, request)
  const head = responseHead(ctx, fields, model)
  if (fields.stream === true) {
    const hasTimings = fields.timings_per_token === true
    await streamResponse(ctx, generation, form, { head, hasTimings, customs })
    return
  }
  const { content, reasoning, calls, end, ...answer } = await collectAnswer(generation, form)
  const item = (kind: ItemKind, text: string, name?: string) => ({
    ...newItem(ctx, kind, name),
    text,
  })
  const items = [
    ...(reasoning === '' ? [] : [item('reasoning', reasoning)]),
    ...(content === '' && calls.length > 0
      ? []
      : [{ ...item('message', content), logprobs: answer.logprobs }]),
    ...calls.map(({ name, arguments: given }) =>
      customs.has(name)
        ? item('custom_tool_call', customInput(given), name)
        : item('function_call', given, name),
    ),
  ]
  ctx.body = { ...head, ...responseEnd(ctx, end, items, answer.reasoningTokens) }
}

/** `POST /v1/responses/input_tokens`: the tokens of an input, without an answer. */
export async function countResponseTokens(ctx: KoaContext, openAi: OpenAiContext): Promise<void> {
  const fields = await readFields(ctx, responsesSchema, openAi.unknownFields)
  const { client } = openModel(openAi.directory, fields.model)
  const { logger } = ctx.state.transport
  const defaults = openAiDefaults['/v1/responses']
  const { request } = await toResponsesRequest(fields, client, defaults, logger)
  ctx.body = { object: 'response.input_tokens', ...(await countPrompt(client, request)) }
}
