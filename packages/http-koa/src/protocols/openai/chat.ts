import type { EngineClient, GenerateRequest, TokenLogprobs } from '@cllm/core'
import { collectAnswer, createAnswerParser } from '../../chat/answer/create-answer-parser.js'
import { repeatRequest } from '../../request/build-request.js'
import { mergeGenerations, startGenerations } from '../../request/generation.js'
import type { EndEvent, Generation, MergedEvent } from '../../request/generation.js'
import { startThinking } from '../../request/limit-thinking.js'
import { countPrompt, promptTextWithBos } from '../../request/prompt-text.js'
import { likelihoodOf, timingsOf, usageOf, StreamTimings } from '../../request/usage.js'
import { encoded, eventStream } from '../../routes/route.js'
import type { Answer, CallOf, Call, Encoder } from '../../routes/route.js'
import { generationSettings } from '../../fields/generation-fields.js'
import {
  type OpenAiContext,
  openAiDefaults,
  toolCallOf,
  chunkWriter,
  secondsNow,
  unknownFingerprint,
} from './openai-answer.js'
import { type chatSchema, finishOf, toChatRequest, type ChatRequest } from './chat-request.js'
import type { AnswerParser, AnswerPart, ToolCall } from '../../chat/answer/answer-part.js'
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

/** The log probabilities of tokens, with their ids as in llama-server. */
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
 * Whether a client of Mistral's API reads the stream: it expects whole calls, which other clients assemble from pieces, and
 * the usage in the last chunk with a choice; it fails at a chunk without one.
 */
const isMistral = (call: Call): boolean =>
  // in browsers it cannot set the first header
  [call.header('User-Agent'), call.header('X-Mistral-User-Agent')].some((agent) =>
    /mistral/i.test(agent),
  )

/**
 * Writes the answers as `chat.completion.chunk` events, then `[DONE]`.
 *
 * @param head - the members that all chunks have
 */
function chatChunks(
  call: CallOf<typeof chatSchema>,
  generations: readonly Generation[],
  asked: ChatRequest,
  head: object,
  write: (text: string) => void,
): Encoder<MergedEvent> {
  const isForMistral = isMistral(call)
  const includeUsage = call.fields.stream_options?.include_usage ?? false
  const about = { ...head, object: 'chat.completion.chunk' }
  const { send, end, fail } = chunkWriter(about, includeUsage, write)
  const choices = generations.map(({ promptTokens }, index) => {
    const timings = new StreamTimings(call.clock, promptTokens, call.fields.return_progress)
    const parser = createAnswerParser(asked.form, !isForMistral)
    return new ChoiceStream(index, call, asked, timings, parser, send)
  })
  const ended: { readonly end: EndEvent; readonly reasoningTokens: number }[] = []
  return {
    begin() {
      for (const choice of choices) choice.send('{"role":"assistant","content":null}')
    },
    push({ index, event }) {
      const choice = choices[index]!
      choice.push(event)
      if (event.type !== 'end') return
      ended[index] = { end: event, reasoningTokens: choice.parser.reasoningTokens }
      if (!includeUsage) choice.timed = timingsOf(event)
      const isLast = Object.keys(ended).length === choices.length
      const usage =
        isForMistral && !includeUsage && isLast ? `,"usage":${JSON.stringify(usageOf(ended))}` : ''
      choice.send('{}', finishOf(event.reason, choice.calls > 0), usage)
    },
    end: () => end(usageOf(ended), ended[0]!.end),
    fail,
  }
}

/** The chunks of one of the answers in a stream. */
class ChoiceStream {
  calls = 0
  /** The timings for the next chunk. */
  timed: object | undefined
  /** The input of the last call, if that is of a free-form tool. */
  #input: CustomInput | undefined
  /** The logprobs for the next chunk. */
  readonly #logprobs: TokenLogprobs[] = []

  constructor(
    private readonly index: number,
    private readonly call: CallOf<typeof chatSchema>,
    private readonly asked: ChatRequest,
    private readonly timings: StreamTimings,
    readonly parser: AnswerParser,
    private readonly write: (choice: string, more: string) => void,
  ) {}

  /** Writes the parts that an event completes; at the end also what was held back. */
  push(event: MergedEvent['event']): void {
    if (event.type === 'progress') {
      const progress = this.timings.progress(event)
      if (progress) this.send('{}', null, `,"prompt_progress":${JSON.stringify(progress)}`)
      return
    }
    if (event.type === 'token') {
      if (this.call.fields.timings_per_token === true) this.timed = this.timings.onToken()
      if (event.logprobs !== undefined) this.#logprobs.push(event.logprobs)
    }
    for (const part of this.parser.push(event.text)) this.#add(part)
    if (event.type !== 'end') return
    for (const part of this.parser.end()) this.#add(part)
    this.#endInput()
  }

  #add(part: AnswerPart): void {
    if (part.type === 'call') this.#addCall(part.call)
    else if (part.type === 'text') this.send(`{"content":${JSON.stringify(part.text)}}`)
    else if (part.type === 'reasoning') {
      this.send(`{"reasoning_content":${JSON.stringify(part.text)}}`)
    } else if (this.#input !== undefined) this.#addInput(this.#input.push(part.text))
    else this.#sendCall({ function: { arguments: part.text } })
  }

  #addCall(made: ToolCall): void {
    this.#endInput()
    const { offered } = this.asked
    const isCustom = offered?.get(made.name)?.isCustom === true
    if (isCustom && made.arguments === '') this.#input = new CustomInput()
    this.calls++
    this.#sendCall(toolCallOf(this.call, made, offered))
  }

  #addInput(input: string): void {
    if (input !== '') this.#sendCall({ custom: { input } })
  }

  #endInput(): void {
    this.#addInput(this.#input?.end() ?? '')
    this.#input = undefined
  }

  /** Writes the beginning of a call, or more of it. */
  #sendCall(members: object): void {
    this.send(JSON.stringify({ tool_calls: [{ index: this.calls - 1, ...members }] }))
  }

  /** Writes a chunk, with pending logprobs and timings. */
  send(delta: string, finish: string | null = null, more = ''): void {
    const timings = this.timed === undefined ? '' : `,"timings":${JSON.stringify(this.timed)}`
    const due = this.#logprobs.splice(0)
    const logprobs =
      due.length === 0 ? 'null' : JSON.stringify(chatLogprobs(due, this.asked.request))
    this.write(
      `{"index":${this.index},"delta":${delta},"logprobs":${logprobs},` +
        `"finish_reason":${JSON.stringify(finish)}}`,
      `${timings}${more}`,
    )
  }
}
