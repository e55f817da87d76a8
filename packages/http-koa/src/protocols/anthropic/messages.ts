import type { EngineDirectory } from '@cllm/core'
import { collectAnswer } from '../../chat/answer/collect-answer.js'
import { openModel } from '../../engines/open-model.js'
import { expectStream } from '../../stream/start-event-stream.js'
import { readFields } from '../../fields/read-fields.js'
import type { UnknownFields } from '../../fields/unknown-fields.js'
import { startThinking } from '../../request/limit-thinking.js'
import { type DefaultOverrides, withOverrides } from '../../request/protocol-defaults.js'
import type { KoaContext } from '../../routes/koa-context.js'
import { anthropicDefaults } from './anthropic-defaults.js'
import { contentOf, messageHead, stopOf, usageOf } from './message-body.js'
import { streamMessage } from './message-stream.js'
import { countSchema, messageSchema, toMessageRequest, toPrompt } from './messages-request.js'

/** What the handlers of Anthropic's API share. */
export interface AnthropicContext {
  readonly directory: EngineDirectory
  readonly overrides: DefaultOverrides
  readonly unknownFields: UnknownFields
}

/** `POST /v1/messages`, whole or streamed. */
export async function messages(ctx: KoaContext, anthropic: AnthropicContext): Promise<void> {
  const fields = await readFields(ctx, messageSchema, anthropic.unknownFields)
  expectStream(ctx, fields.stream)
  const { model, client } = openModel(anthropic.directory, fields.model)
  const defaults = withOverrides(anthropicDefaults['/v1/messages'], anthropic.overrides)
  const { request, form, limit, keptTokens } = await toMessageRequest(fields, client, defaults)
  const [generation] = await startThinking(ctx, client, [request], limit)
  if (generation === undefined) return
  const head = messageHead(ctx, model)
  if (fields.stream === true) {
    await streamMessage(ctx, generation, form, { head, keptTokens })
    return
  }
  const answer = await collectAnswer(generation, form)
  ctx.body = {
    ...head,
    content: contentOf(ctx, answer),
    ...stopOf(answer.end, answer.calls.length > 0),
    usage: usageOf(answer.end.usage, keptTokens),
  }
}

/** `POST /v1/messages/count_tokens` */
export async function countTokens(ctx: KoaContext, anthropic: AnthropicContext): Promise<void> {
  const fields = await readFields(ctx, countSchema, anthropic.unknownFields)
  const { client } = openModel(anthropic.directory, fields.model)
  const { prompt } = await toPrompt(fields, client)
  const { tokens } = await client.applyTemplate(prompt.messages, prompt.template)
  ctx.body = { input_tokens: tokens.length }
}
