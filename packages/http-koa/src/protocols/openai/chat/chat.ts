import { type EngineClient, type GenerateRequest, requestId } from '@cllm/core'
import { collectAnswer, type CollectedAnswer } from '../../../chat/answer/collect-answer.js'
import type { KoaContext } from '../../../routes/koa-context.js'
import { generationSettings } from '../../llama-server/generation-settings.js'
import { promptTextWithBos } from '../../../request/prompt-text.js'
import { countPrompt } from '../../../request/prompt-tokens.js'
import { repeatRequest } from '../../../request/generation.js'
import { startThinking } from '../../../request/limit-thinking.js'
import { withOverrides } from '../../../request/protocol-defaults.js'
import { openAiDefaults } from '../openai-defaults.js'
import { expectStream } from '../../../stream/start-event-stream.js'
import { readFields } from '../../../fields/read-fields.js'
import { finishOf, toolCallOf } from '../answer-words.js'
import { chatSchema, thinkingLimit, toChatRequest } from './chat-request.js'
import { streamChat } from './chat-stream.js'
import { openModel } from '../../../engines/open-model.js'
import { type OpenAiContext, secondsNow, unknownFingerprint } from '../openai-context.js'
import { chatLogprobs } from '../openai-logprobs.js'
import { sum, timingsOf, usageOf } from '../../../request/usage.js'

/** `POST /v1/chat/completions`, whole or streamed. */
export async function chatCompletions(ctx: KoaContext, openAi: OpenAiContext): Promise<void> {
  const fields = await readFields(ctx, chatSchema, openAi.unknownFields)
  expectStream(ctx, fields.stream)
  const { model, client } = openModel(openAi.directory, fields.model)
  const defaults = withOverrides(openAiDefaults['/v1/chat/completions'], openAi.overrides)
  const asked = await toChatRequest(fields, client, defaults, ctx.state.transport.logger)
  const { request, form, customs } = asked
  const requests = repeatRequest(request, fields.n ?? 1)
  const limit = thinkingLimit(fields, asked)
  const generations = await startThinking(ctx, client, requests, limit)
  const head = {
    id: `chatcmpl-${requestId(ctx.state.transport.random)}`,
    created: secondsNow(ctx),
    model,
    system_fingerprint: generations[0]?.fingerprint ?? unknownFingerprint,
  }
  if (fields.stream === true) {
    const includeUsage = fields.stream_options?.include_usage ?? false
    const hasTimings = fields.timings_per_token === true
    await streamChat(ctx, generations, form, { head, includeUsage, hasTimings, customs })
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
      message: messageOf(ctx, answer, customs),
      logprobs: fields.logprobs === true ? chatLogprobs(answer.logprobs) : null,
      finish_reason: finishOf(answer.end.reason, answer.calls.length > 0),
    })),
    usage: usageOf(ends, sum(answers.map(({ reasoningTokens }) => reasoningTokens))),
    timings: timingsOf(ends[0]!),
    ...((fields.verbose ?? openAi.isVerbose()) && { __verbose: await verboseOf(client, request) }),
  }
}

/** What llama-server shows of a request that is `verbose`. */
async function verboseOf(client: EngineClient, request: GenerateRequest): Promise<object> {
  const info = await client.info()
  return {
    prompt: await promptTextWithBos(client, info, request.prompt),
    generation_settings: generationSettings(request, info),
  }
}

/** `POST /v1/chat/completions/input_tokens`: the tokens of a conversation, without an answer. */
export async function countChatTokens(ctx: KoaContext, openAi: OpenAiContext): Promise<void> {
  const fields = await readFields(ctx, chatSchema, openAi.unknownFields)
  const { client } = openModel(openAi.directory, fields.model)
  const { logger } = ctx.state.transport
  const defaults = openAiDefaults['/v1/chat/completions']
  const { request } = await toChatRequest(fields, client, defaults, logger)
  ctx.body = { object: 'response.input_tokens', ...(await countPrompt(client, request)) }
}

function messageOf(
  ctx: KoaContext,
  { content, reasoning, calls }: CollectedAnswer,
  customs: ReadonlySet<string>,
) {
  return {
    role: 'assistant',
    content: content === '' && calls.length > 0 ? null : content,
    refusal: null,
    ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
    ...(calls.length === 0
      ? {}
      : { tool_calls: calls.map((call) => toolCallOf(ctx, call, customs)) }),
  }
}
