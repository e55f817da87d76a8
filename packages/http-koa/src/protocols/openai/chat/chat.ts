import type { EngineClient, GenerateRequest } from '@cllm/core'
import { collectAnswer } from '../../../chat/answer/create-answer-parser.js'
import { repeatRequest } from '../../../request/build-request.js'
import { mergeGenerations, startGenerations } from '../../../request/generation.js'
import { startThinking } from '../../../request/limit-thinking.js'
import { countPrompt, promptTextWithBos } from '../../../request/prompt-text.js'
import { sum, timingsOf, usageOf } from '../../../request/usage.js'
import { type Answer, type CallOf, encoded, eventStream } from '../../../routes/route.js'
import { generationSettings } from '../../llama-server/generation-settings.js'
import type { OpenAiContext } from '../openai-context.js'
import { openAiDefaults, toolCallOf, unknownFingerprint } from '../openai-context.js'
import { chatLogprobs } from '../openai-logprobs.js'
import { type chatSchema, finishOf, toChatRequest } from './chat-request.js'
import { chatChunks } from './chat-stream.js'

/** `POST /v1/chat/completions`, whole or streamed. */
export async function chatCompletions(call: CallOf<typeof chatSchema>, openAi: OpenAiContext) {
  const { fields } = call
  const { model, client } = call.open(fields.model)
  const defaults = openAi.defaults['/v1/chat/completions']
  const asked = await toChatRequest(fields, client, defaults, call.logger)
  const { request, form, offered, limit } = asked
  const requests = repeatRequest(request, fields.n ?? 1)
  const generations =
    limit === undefined
      ? await startGenerations(call, client, requests)
      : await startThinking(call, client, requests, limit)
  const head = {
    id: `chatcmpl-${generations[0]!.id}`,
    created: Math.floor(call.clock.now() / 1000),
    model,
    system_fingerprint: generations[0]!.fingerprint ?? unknownFingerprint,
  }
  if (fields.stream === true) {
    return encoded(eventStream, mergeGenerations(generations), (write) =>
      chatChunks(call, generations, asked, head, write),
    )
  }
  const answers = await Promise.all(
    generations.map(async (generation) => await collectAnswer(generation, form)),
  )
  const ends = answers.map(({ end }) => end)
  const choices = answers.map(({ content, reasoning, calls, end, logprobs }, index) => ({
    index,
    message: {
      role: 'assistant',
      content: content === '' && calls.length > 0 ? null : content,
      refusal: null,
      ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
      ...(calls.length > 0 && { tool_calls: calls.map((one) => toolCallOf(call, one, offered)) }),
    },
    logprobs: fields.logprobs === true ? chatLogprobs(logprobs) : null,
    finish_reason: finishOf(end.reason, calls.length > 0),
  }))
  const isVerbose = fields.verbose ?? verboseLevel.test(openAi.log?.level ?? '')
  return {
    ...head,
    object: 'chat.completion',
    choices,
    usage: usageOf(ends, sum(answers.map(({ reasoningTokens }) => reasoningTokens))),
    timings: timingsOf(ends[0]!),
    ...(isVerbose && { __verbose: await verboseOf(client, request) }),
  }
}

/** The levels at which llama-server's `--verbose` logs. */
const verboseLevel = /^(trace|debug)$/

/** What llama-server shows of a request that is `verbose`. */
async function verboseOf(client: EngineClient, request: GenerateRequest): Promise<object> {
  const info = await client.info()
  return {
    prompt: await promptTextWithBos(client, info, request.prompt),
    generation_settings: generationSettings(request, info),
  }
}

/** `POST /v1/chat/completions/input_tokens`: the tokens of a conversation, without an answer. */
export async function countChatTokens(call: CallOf<typeof chatSchema>): Promise<Answer> {
  const { fields, logger } = call
  const { client } = call.open(fields.model)
  const defaults = openAiDefaults['/v1/chat/completions']
  const { request } = await toChatRequest(fields, client, defaults, logger)
  return { object: 'response.input_tokens', ...(await countPrompt(client, request)) }
}
