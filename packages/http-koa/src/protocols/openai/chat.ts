import type { EngineClient, GenerateRequest, TokenLogprobs } from '@cllm/core'
import { collectAnswer, createAnswerParser } from '../../chat/answer/create-answer-parser.js'
import { repeatRequest } from '../../request/build-request.js'
import { mergeGenerations, startGenerations } from '../../request/generation.js'
import type { EndEvent, Generation, MergedEvent } from '../../request/generation.js'
import { startThinking } from '../../request/limit-thinking.js'
import { countPrompt, promptTextWithBos } from '../../request/prompt-text.js'
import { timingsOf, usageOf, promptProgress, StreamTimings } from '../../request/usage.js'
import { encoded, eventStream } from '../../routes/route.js'
import type { Answer, CallOf, Call, Encoder } from '../../routes/route.js'
import { likelihoodOf } from '../llama-server/completion.js'
import { generationSettings } from '../llama-server/completion-request.js'
import {
  type OpenAiContext,
  openAiDefaults,
  toolCallOf,
  secondsNow,
  unknownFingerprint,
  openAiErrorBody,
} from './openai-answer.js'
import { type chatSchema, finishOf, toChatRequest, type ChatRequest } from './chat-request.js'
import type { AnswerPart } from '../../chat/answer/answer-part.js'
import { CustomInput } from './openai-tools.js'

/** `POST /v1/chat/completions`, whole or streamed. */
export async function chatCompletions(call: CallOf<typeof chatSchema>, openAi: OpenAiContext) {
  const { fields } = call
  const asked = await toChatRequest(call, openAi.defaults['/v1/chat/completions'])
  const { model, client, request, form, offered, limit } = asked
  const requests = repeatRequest(request, fields.n ?? 1)
  const generations =
    limit === undefined
      ? await startGenerations(call, client, requests)
      : await startThinking(call, client, requests, limit)
  const head = {
    id: `chatcmpl-${generations[0]!.id}`,
    created: secondsNow(call),
    model,
    system_fingerprint: generations[0]!.fingerprint ?? unknownFingerprint,
  }
  if (fields.stream === true) {
    return encoded(eventStream, mergeGenerations(generations), (write) =>
      chatChunks(call, generations, asked, head, write),
    )
  }
  const answers = await Promise.all(generations.map((one) => collectAnswer(one, form)))
  const isLikely = (request.logprobs ?? request.drawLogprobs) !== undefined
  const choices = answers.map(({ content, reasoning, calls, end, logprobs }, index) => ({
    index,
    message: {
      role: 'assistant',
      content: content === '' && calls.length > 0 ? null : content,
      refusal: null,
      ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
      ...(calls.length > 0 && { tool_calls: calls.map((one) => toolCallOf(call, one, offered)) }),
    },
    logprobs: isLikely ? chatLogprobs(logprobs, request) : null,
    finish_reason: finishOf(end.reason, calls.length > 0),
  }))
  const isVerbose = fields.verbose ?? verboseLevel.test(openAi.log?.level ?? '')
  return {
    ...head,
    object: 'chat.completion',
    choices,
    usage: usageOf(answers),
    timings: timingsOf(answers[0]!.end),
    ...(isVerbose && { __verbose: await verboseOf(client, request) }),
  }
}

/** How likely tokens were, with their ids, as llama-server has them, too. */
const chatLogprobs = (tokens: readonly TokenLogprobs[], request: GenerateRequest): object => ({
  content: tokens.map((token) => likelihoodOf(token, request)),
  refusal: null,
})

/** The levels at which llama-server's `--verbose` logs. */
const verboseLevel = /^(trace|debug)$/

/** What llama-server shows of a request that is `verbose`. */
async function verboseOf(client: EngineClient, request: GenerateRequest): Promise<object> {
  const info = await client.info()
  return {
    prompt: await promptTextWithBos(client, request.prompt),
    generation_settings: generationSettings(request, info),
  }
}

/** `POST /v1/chat/completions/input_tokens`: the tokens of a conversation, without an answer. */
export async function countChatTokens(call: CallOf<typeof chatSchema>): Promise<Answer> {
  const { client, request } = await toChatRequest(call, openAiDefaults['/v1/chat/completions'])
  return { object: 'response.input_tokens', ...(await countPrompt(client, request)) }
}

/**
 * Whether a client of Mistral's API reads the stream: it wants whole calls, where others put pieces together, and the
 * usage in the last chunk with an answer, failing at one without.
 */
const isMistral = (call: Call): boolean =>
  // browsers do not let it set the first
  [call.header('User-Agent'), call.header('X-Mistral-User-Agent')].some((agent) =>
    /mistral/i.test(agent),
  )

/**
 * Writes the answers as `chat.completion.chunk` events, then `[DONE]`.
 *
 * @param head - what all chunks have in common
 */
function chatChunks(
  call: CallOf<typeof chatSchema>,
  generations: readonly Generation[],
  { request, form, offered }: ChatRequest,
  head: object,
  write: (text: string) => void,
): Encoder<MergedEvent> {
  const { clock, fields } = call
  const includeUsage = fields.stream_options?.include_usage ?? false
  const isForMistral = isMistral(call)
  const hasTimings = fields.timings_per_token === true
  const opening = `data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk' }).slice(0, -1)},"choices":`
  const closing = `${includeUsage ? ',"usage":null' : ''}}\n\n`
  const answers = generations.map(({ promptTokens }) => ({
    timings: new StreamTimings(clock, promptTokens),
    /** Those for the next chunk. */
    timed: undefined as object | undefined,
    parser: createAnswerParser(form, !isForMistral),
    calls: 0,
    /** Of the last call, where that is one of a free-form tool. */
    input: undefined as CustomInput | undefined,
    /** The logprobs for the next chunk. */
    logprobs: [] as TokenLogprobs[],
  }))
  const send = (index: number, delta: string, finish: string | null = null, more = '') => {
    const { timed } = answers[index]!
    const timings = timed === undefined ? '' : `,"timings":${JSON.stringify(timed)}`
    const due = answers[index]!.logprobs.splice(0)
    const logprobs = due.length === 0 ? 'null' : JSON.stringify(chatLogprobs(due, request))
    write(
      `${opening}[{"index":${index},"delta":${delta},"logprobs":${logprobs},` +
        `"finish_reason":${JSON.stringify(finish)}}]${timings}${more}${closing}`,
    )
  }
  const ended: { readonly end: EndEvent; readonly reasoningTokens: number }[] = []
  const usageText = () => `,"usage":${JSON.stringify(usageOf(ended))}`
  const say = (index: number, parts: readonly AnswerPart[]) => {
    const answer = answers[index]!
    for (const part of parts) {
      if (part.type === 'text') send(index, `{"content":${JSON.stringify(part.text)}}`)
      else if (part.type === 'reasoning') {
        send(index, `{"reasoning_content":${JSON.stringify(part.text)}}`)
      } else if (part.type === 'call') {
        endInput(index)
        const made = { index: answer.calls++, ...toolCallOf(call, part.call, offered) }
        send(index, JSON.stringify({ tool_calls: [made] }))
        const isCustom = offered?.get(part.call.name)?.isCustom === true
        const isOpen = isCustom && part.call.arguments === ''
        answer.input = isOpen ? new CustomInput() : undefined
      } else if (answer.input !== undefined) sayInput(index, answer.input.push(part.text))
      else sayMore(index, { function: { arguments: part.text } })
    }
  }
  const sayMore = (index: number, more: object) => {
    const called = { index: answers[index]!.calls - 1, ...more }
    send(index, JSON.stringify({ tool_calls: [called] }))
  }
  const sayInput = (index: number, input: string) => {
    if (input !== '') sayMore(index, { custom: { input } })
  }
  const endInput = (index: number) => {
    sayInput(index, answers[index]!.input?.end() ?? '')
    answers[index]!.input = undefined
  }
  return {
    begin() {
      for (const index of answers.keys()) send(index, '{"role":"assistant","content":null}')
    },
    push({ index, event }) {
      const answer = answers[index]!
      const { parser, logprobs } = answer
      if (event.type === 'progress') {
        const progress = JSON.stringify(promptProgress(event, answer.timings.elapsedMs))
        write(
          `${opening}[{"index":${index},"delta":{},"logprobs":null,"finish_reason":null}],` +
            `"prompt_progress":${progress}${closing}`,
        )
        return
      }
      if (event.type === 'token') answer.timed = hasTimings ? answer.timings.onToken() : undefined
      if (event.type === 'token' && event.logprobs !== undefined) logprobs.push(event.logprobs)
      say(index, parser.push(event.text))
      if (event.type !== 'end') return
      say(index, parser.end())
      endInput(index)
      ended[index] = { end: event, reasoningTokens: parser.reasoningTokens }
      if (!includeUsage) answer.timed = timingsOf(event)
      const isLast = Object.keys(ended).length === answers.length
      const usage = isForMistral && !includeUsage && isLast ? usageText() : ''
      send(index, '{}', finishOf(event.reason, answer.calls > 0), usage)
    },
    end() {
      if (includeUsage) {
        const timings = JSON.stringify(timingsOf(ended[0]!.end))
        write(`${opening}[]${usageText()},"timings":${timings}}\n\n`)
      }
      write('data: [DONE]\n\n')
    },
    fail: (error) => write(`data: ${JSON.stringify(openAiErrorBody(error))}\n\n`),
  }
}
