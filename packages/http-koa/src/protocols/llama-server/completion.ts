import type { EngineClient, EngineInfo, GenerateRequest, TokenLogprobs } from '@cllm/core'
import {
  collect,
  mergeGenerations,
  onlyPrompts,
  startGenerations,
} from '../../request/generation.js'
import type { EndEvent, Generation, MergedEvent } from '../../request/generation.js'
import { generationSettings } from '../../fields/generation-fields.js'
import { promptTextWithBos } from '../../request/prompt-text.js'
import { expectedField } from '../../request/refusals.js'
import { likelihoodOf, StreamTimings, timingsOf } from '../../request/usage.js'
import { encoded, eventStream } from '../../routes/route.js'
import type { Answer, Call, CallOf, Encoder } from '../../routes/route.js'
import {
  type CompletionFields,
  type completionSchema,
  isListed,
  type LlamaServerContext,
  mostTokens,
  toCompletionRequests,
  llamaServerErrorBody,
} from './completion-request.js'

/** `POST /completion`, whole or streamed. */
export async function completion(call: CallOf<typeof completionSchema>, llama: LlamaServerContext) {
  return await complete(call, llama, call.open(call.fields.model).client, call.fields)
}

/** Continues one or several prompts. */
export async function complete(
  call: Call,
  llama: LlamaServerContext,
  client: EngineClient,
  fields: CompletionFields,
): Promise<Answer> {
  const requests = await toCompletionRequests(fields, client, llama.defaults)
  if (requests.length > 128) {
    throw expectedField('prompt', 'at most 128 answers to all prompts together')
  }
  const isPromptOnly = mostTokens(fields) === 0
  const info = await client.info()
  const model = fields.model ?? call.engines.list()[0] ?? ''
  const about = await Promise.all(
    requests.map(async (request) => {
      const prompt = await promptTextWithBos(client, request.prompt)
      const asked = isPromptOnly ? { ...request, maxTokens: 0 } : request
      return { model, prompt, request: asked, info }
    }),
  )
  const started = await startGenerations(call, client, requests)
  const generations = isPromptOnly ? onlyPrompts(started) : started
  if (fields.stream === true) {
    return encoded(eventStream, mergeGenerations(generations), (write) =>
      chunks(call, generations, about, fields, write),
    )
  }
  const answers = await Promise.all(
    generations.map(async (generation, index) => {
      const { text: content, tokens: all, logprobs, end } = await collect(generation)
      const tokens = fields.return_tokens === true ? all : []
      const likely = probabilities(logprobs, about[index]!.request)
      const ended = ending(end, about[index]!, content.includes('\n'))
      return pickFields({ index, content, tokens, ...likely, ...ended }, fields)
    }),
  )
  return isListed(fields) ? answers : answers[0]!
}

/** The facts about a request that the end of its answer includes. */
interface About {
  readonly model: string
  readonly prompt: string
  readonly request: GenerateRequest
  readonly info: EngineInfo
}

/** The events of a stream: each has a piece of one of the answers, or its end. */
function chunks(
  { clock }: Call,
  generations: readonly Generation[],
  abouts: readonly About[],
  fields: CompletionFields,
  write: (text: string) => void,
): Encoder<MergedEvent> {
  const send = (chunk: object) => write(`data: ${JSON.stringify(chunk)}\n\n`)
  const isTimed = fields.timings_per_token === true
  const answers = generations.map(({ promptTokens }, index) => ({
    about: abouts[index]!,
    promptTokens,
    timings: new StreamTimings(clock, promptTokens, fields.return_progress),
    tokenCount: 0,
    hasNewLine: false,
  }))
  return {
    push({ index, event }) {
      const answer = answers[index]!
      const { about, promptTokens, timings } = answer
      answer.hasNewLine ||= event.text.includes('\n')
      if (event.type === 'end') {
        const ended = ending(event, about, answer.hasNewLine)
        send(pickFields({ index, content: event.text, tokens: [], ...ended }, fields))
        return
      }
      const isToken = event.type === 'token'
      const prompt_progress = isToken ? undefined : timings.progress(event)
      if (!isToken && prompt_progress === undefined) return
      if (isToken) answer.tokenCount++
      send({
        index,
        content: event.text,
        tokens: isToken ? [event.token] : [],
        stop: false,
        id_slot: about.request.slot ?? -1,
        tokens_predicted: answer.tokenCount,
        tokens_evaluated: promptTokens,
        ...(isTimed && { timings: isToken ? timings.onToken() : timings.onPrompt(event) }),
        ...(isToken
          ? probabilities(event.logprobs ? [event.logprobs] : [], about.request)
          : { prompt_progress }),
      })
    },
    fail: (error) => send(llamaServerErrorBody(error)),
  }
}

/** The last part of an answer, as in llama-server. */
function ending(end: EndEvent, { model, prompt, request, info }: About, hasNewLine: boolean) {
  const { usage } = end
  const total = usage.promptTokens + usage.generatedTokens
  return {
    // −1: the next request can leave the choice to the engine, too, which finds its prompt in any slot
    id_slot: request.slot ?? -1,
    stop: true,
    model,
    tokens_predicted: usage.generatedTokens,
    tokens_evaluated: usage.promptTokens,
    generation_settings: generationSettings(request, info),
    prompt,
    has_new_line: hasNewLine,
    // its oldest tokens were dropped, or the slot was full before the answer had its full length
    truncated:
      total > info.limits.contextSize + 1 ||
      (end.reason === 'length' && usage.generatedTokens < (request.maxTokens ?? Infinity)),
    stop_type: end.reason === 'length' ? 'limit' : end.stop === undefined ? 'eos' : 'word',
    stopping_word: end.stop ?? '',
    // the last sampled token was not computed
    tokens_cached: total - Math.min(1, usage.generatedTokens),
    timings: timingsOf(end),
  }
}

/**
 * The parts of an answer that a client selects with llama-server's `response_fields`: paths with slashes, such as
 * `generation_settings/n_predict`, which are also the names in the result. Empty: the whole answer.
 */
function pickFields(answer: object, { response_fields: names = [] }: CompletionFields): object {
  if (names.length === 0) return answer
  const picked = names.flatMap((field) => {
    let value: unknown = answer
    for (const step of field.split('/')) {
      if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step)) return []
      value = (value as Readonly<Record<string, unknown>>)[step]
    }
    return [[field, value] as const]
  })
  return Object.fromEntries(picked)
}

/** The log probabilities of an answer's tokens. */
const probabilities = (tokens: readonly TokenLogprobs[], request: GenerateRequest): object =>
  tokens.length === 0
    ? {}
    : { completion_probabilities: tokens.map((token) => likelihoodOf(token, request)) }
