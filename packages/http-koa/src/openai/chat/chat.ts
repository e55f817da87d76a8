import { requestId } from '@cllm/core'
import { collectAnswer, type CollectedAnswer } from '../../chat/answer/collect-answer.js'
import type { KoaContext } from '../../routes/koa-context.js'
import { repeatRequest, startGenerations } from '../../request/generation.js'
import { withOverrides } from '../../request/protocol-defaults.js'
import { openAiDefaults } from '../openai-defaults.js'
import { readFields } from '../../fields/read-fields.js'
import { finishOf, toolCallOf } from '../answer-words.js'
import { chatSchema, toChatRequest } from './chat-request.js'
import { streamChat } from './chat-stream.js'
import { openModel } from '../../engines/open-model.js'
import { fingerprint, type OpenAiContext, secondsNow } from '../openai-context.js'
import { chatLogprobs } from '../openai-logprobs.js'
import { timingsOf, usageOf } from '../../request/usage.js'

/** `POST /v1/chat/completions`, whole or streamed. */
export async function chatCompletions(ctx: KoaContext, openAi: OpenAiContext): Promise<void> {
  const fields = await readFields(ctx, chatSchema, openAi.unknownFields)
  const { model, client } = openModel(openAi.directory, fields.model)
  const defaults = withOverrides(openAiDefaults['/v1/chat/completions'], openAi.overrides)
  const { request, form } = await toChatRequest(fields, client, defaults)
  const requests = repeatRequest(request, fields.n ?? 1)
  const generations = await startGenerations(ctx, client, requests)
  const head = {
    id: `chatcmpl-${requestId(ctx.state.transport.random)}`,
    created: secondsNow(ctx),
    model,
    system_fingerprint: fingerprint,
  }
  if (fields.stream === true) {
    const includeUsage = fields.stream_options?.include_usage ?? false
    await streamChat(ctx, generations, form, { head, includeUsage })
    return
  }
  const answers = await Promise.all(
    generations.map((generation) => collectAnswer(generation, form)),
  )
  const ends = answers.map(({ end }) => end)
  ctx.body = {
    ...head,
    object: 'chat.completion',
    choices: answers.map((answer, index) => ({
      index,
      message: messageOf(ctx, answer),
      logprobs: fields.logprobs === true ? chatLogprobs(answer.logprobs) : null,
      finish_reason: finishOf(answer.end.reason, answer.calls.length > 0),
    })),
    usage: usageOf(ends),
    timings: timingsOf(ends[0]!),
  }
}

function messageOf(ctx: KoaContext, { content, reasoning, calls }: CollectedAnswer) {
  return {
    role: 'assistant',
    content: content === '' && calls.length > 0 ? null : content,
    ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
    ...(calls.length === 0 ? {} : { tool_calls: calls.map((call) => toolCallOf(ctx, call)) }),
  }
}
