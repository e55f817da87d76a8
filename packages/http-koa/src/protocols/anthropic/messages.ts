import { collectAnswer } from '../../chat/answer/create-answer-parser.js'
import { startThinking } from '../../request/limit-thinking.js'
import type { DefaultOverrides } from '../../request/build-request.js'
import { withOverrides } from '../../request/protocol-defaults.js'
import type { Answer, CallOf } from '../../routes/call.js'
import { encoded, eventStream } from '../../routes/reply.js'
import { contentOf, messageHead, stopOf, usageOf } from './message-body.js'
import { messageEvents } from './message-stream.js'
import {
  type countSchema,
  type messageSchema,
  toMessageRequest,
  toPrompt,
} from './messages-request.js'

/** What the handlers of Anthropic's API share. */
export interface AnthropicContext {
  readonly overrides: DefaultOverrides
}

/** `POST /v1/messages`, whole or streamed. */
export async function messages(call: CallOf<typeof messageSchema>, anthropic: AnthropicContext) {
  const { fields } = call
  const { model, client } = call.open(fields.model)
  const defaults = withOverrides(anthropicDefaults['/v1/messages'], anthropic.overrides)
  const { request, form, limit, keptTokens } = await toMessageRequest(fields, client, defaults)
  const [generation] = await startThinking(call, client, [request], limit)
  if (generation === undefined) throw new Error('a generation was asked for')
  const head = messageHead(call, model)
  if (fields.stream === true) {
    return encoded(eventStream, generation.events, (write) =>
      messageEvents(call, generation, form, { head, keptTokens }, write),
    )
  }
  const answer = await collectAnswer(generation, form)
  return {
    ...head,
    content: contentOf(call, answer),
    ...stopOf(answer.end, answer.calls.length > 0),
    usage: usageOf(answer.end.usage, keptTokens),
  }
}

/** `POST /v1/messages/count_tokens` */
export async function countTokens(call: CallOf<typeof countSchema>): Promise<Answer> {
  const { fields } = call
  const { client } = call.open(fields.model)
  const { prompt } = await toPrompt(fields, client)
  const { tokens } = await client.applyTemplate(prompt.messages, prompt.template)
  return { input_tokens: tokens.length }
}

/** Anthropic's documented defaults, by route; `max_tokens` is required. */
export const anthropicDefaults = Object.freeze({
  '/v1/messages': { maxTokens: Infinity, sampling: Object.freeze({ temperature: 1 }) },
})
