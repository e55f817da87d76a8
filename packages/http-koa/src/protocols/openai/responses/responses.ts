import { collectAnswer } from '../../../chat/answer/create-answer-parser.js'
import { startGeneration } from '../../../request/generation.js'
import { countPrompt } from '../../../request/prompt-text.js'
import type { Answer, CallOf } from '../../../routes/call.js'
import { encoded, eventStream } from '../../../routes/reply.js'
import { type OpenAiContext, openAiDefaults } from '../openai-context.js'
import { customInput } from '../tools/custom-tools.js'
import { type ItemKind, newItem, responseEnd, responseHead } from './response-object.js'
import { responseEvents } from './response-stream.js'
import { type responsesSchema, toResponsesRequest } from './responses-request.js'

/** `POST /v1/responses`, whole or streamed. Nothing is stored. */
export async function responses(
  call: CallOf<typeof responsesSchema>,
  openAi: OpenAiContext,
): Promise<Answer> {
  const { fields } = call
  const { model, client } = call.open(fields.model)
  const defaults = openAi.defaults['/v1/responses']
  const { request, form, customs } = await toResponsesRequest(fields, client, defaults, call.logger)
  const generation = await startGeneration(call, client, request)
  const head = responseHead(call, fields, model)
  if (fields.stream === true) {
    const hasTimings = fields.timings_per_token === true
    return encoded(eventStream, generation.events, (write) =>
      responseEvents(call, generation, form, { head, hasTimings, customs }, write),
    )
  }
  const { content, reasoning, calls, end, ...answer } = await collectAnswer(generation, form)
  const item = (kind: ItemKind, text: string, name?: string) => ({
    ...newItem(call, kind, name),
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
  return { ...head, ...responseEnd(call, end, items, answer.reasoningTokens) }
}

/** `POST /v1/responses/input_tokens`: the tokens of an input, without an answer. */
export async function countResponseTokens(call: CallOf<typeof responsesSchema>): Promise<Answer> {
  const { fields, logger } = call
  const { client } = call.open(fields.model)
  const defaults = openAiDefaults['/v1/responses']
  const { request } = await toResponsesRequest(fields, client, defaults, logger)
  return { object: 'response.input_tokens', ...(await countPrompt(client, request)) }
}
