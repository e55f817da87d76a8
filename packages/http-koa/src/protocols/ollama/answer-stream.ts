import { CllmError, defined } from '@cllm/core'
import type { EngineClient, Prompt, TokenId, TokenLogprobs } from '@cllm/core'
import type { AnswerPart } from '../../chat/answer/answer-part.js'
import { collectAnswer, createAnswerParser } from '../../chat/answer/create-answer-parser.js'
import type { AnswerForm, CollectedAnswer } from '../../chat/answer/create-answer-parser.js'
import { publicError } from '../../errors/error-body.js'
import { planAnswer } from '../../chat/plan-answer.js'
import { requestFor } from '../../request/build-request.js'
import { type EndEvent, type GenerationEvent, startGeneration } from '../../request/generation.js'
import { promptTokens } from '../../request/prompt-text.js'
import { type Answer, type Call, encoded, type Encoder, jsonLines } from '../../routes/route.js'
import { parametersOf } from './modelfile.js'
import {
  chunkHead,
  nameOfOllamaModel,
  ollamaErrorBody,
  ollamaConstraint,
  optionsSchema,
  toSettings,
  warnOfOptions,
} from './ollama-shared.js'
import type { OllamaContext, SharedFields } from './ollama-shared.js'
import { mayChangeServer } from '../../security/authenticate.js'
import { responseLogprob } from '../../request/usage.js'

/** How a route writes an answer as JSON. */
export interface AnswerWords {
  /** The members of a chunk with this part. */
  readonly part: (part: AnswerPart) => object
  /** The members of the last chunk of a stream, which has no text. */
  readonly empty: object
  /** The members of a whole answer. */
  readonly whole: (answer: CollectedAnswer) => object
}

/** A prepared request. */
export interface OllamaQuestion {
  readonly fields: SharedFields
  readonly prompt: Prompt
  readonly form: AnswerForm
  readonly words: AnswerWords
  /** When the request arrived, in milliseconds of the clock. */
  readonly started: number
  /** Whether the end contains the tokens of prompt and answer. */
  readonly hasContext?: boolean
}

/** Generates with the fields that both routes share, and answers whole or as NDJSON. */
export async function answer(
  call: Call,
  client: EngineClient,
  ollama: OllamaContext,
  { fields, words, started, hasContext = false, ...prepared }: OllamaQuestion,
): Promise<Answer> {
  const { model } = fields
  const asked = [ollamaConstraint(fields)]
  const { prompt, form, constraint, marks } = await planAnswer(client, prepared, { asked })
  const { limits } = await client.info()
  const { logger, clock } = call
  const loadMs = clock.now() - started
  const said = { ...fields, options: { ...slotOptions(client), ...fields.options } }
  const settings = {
    ...toSettings(said, ollama.unknownOptions, logger),
    // `keep_alive` is also how long the client may take until its next request
    retainMs: fields.keep_alive === Infinity ? undefined : fields.keep_alive,
    logprobs: fields.logprobs === true ? (fields.top_logprobs ?? 0) : undefined,
  }
  warnOfOptions(call, said, limits.contextSize)
  const wanted = { ...settings, constraint, marks }
  const request = requestFor(client, prompt, wanted, ollama.defaults)
  const generation = await startGeneration(call, client, request)
  const before = hasContext ? await promptTokens(client, prompt) : undefined
  const end = (event: EndEvent, tokens: readonly TokenId[]) =>
    ending(event, loadMs, before && [...before, ...tokens])
  if (fields.stream ?? true) {
    const lines = (write: (text: string) => void) =>
      chunks(call, { model, form, words, end }, write)
    return encoded(jsonLines, generation.events, lines)
  }
  const whole = await collectAnswer(generation, form)
  const likely = logprobsOf(whole.logprobs)
  const ended = end(whole.end, whole.tokens)
  return { ...chunkHead(call, model), ...words.whole(whole), ...likely, ...ended }
}

/** A preset's options of the slot. They are merged into the request, as the engine has no defaults for them. */
function slotOptions({ preset }: EngineClient): SharedFields['options'] {
  const { num_ctx, num_keep } = optionsSchema.parse(parametersOf(preset))
  return defined({ num_ctx, num_keep })
}

/** The log probabilities in OpenAI's format; absent if there are none. */
const logprobsOf = (tokens: readonly TokenLogprobs[]) =>
  tokens.length > 0 && { logprobs: tokens.map(responseLogprob) }

interface Chunks extends Pick<OllamaQuestion, 'form' | 'words'> {
  readonly model: string
  readonly end: (event: EndEvent, tokens: readonly TokenId[]) => object
}

function chunks(
  call: Call,
  { model, form, words, end }: Chunks,
  write: (text: string) => void,
): Encoder<GenerationEvent> {
  const parser = createAnswerParser(form)
  const due: TokenLogprobs[] = []
  const tokens: TokenId[] = []
  const send = (members: object) =>
    write(`${JSON.stringify({ ...chunkHead(call, model), ...members })}\n`)
  const say = (parts: readonly AnswerPart[]) => {
    for (const part of parts) {
      send({ ...words.part(part), ...logprobsOf(due.splice(0)), done: false })
    }
  }
  return {
    push(event) {
      if (event.type === 'token') tokens.push(event.token)
      if (event.type === 'token' && event.logprobs !== undefined) due.push(event.logprobs)
      say(parser.push(event.text))
      if (event.type !== 'end') return
      say(parser.end())
      send({ ...words.empty, ...logprobsOf(due), ...end(event, tokens) })
    },
    fail: (error) => write(`${JSON.stringify(ollamaErrorBody(error))}\n`),
  }
}

/** The members of the last chunk; durations are nanoseconds. */
function ending(
  { reason, usage, timings }: EndEvent,
  loadMs: number,
  context: readonly TokenId[] | undefined,
): object {
  const nanoseconds = (milliseconds: number) => Math.round(milliseconds * 1e6)
  return {
    done: true,
    done_reason: reason,
    ...(context === undefined ? {} : { context }),
    total_duration: nanoseconds(timings.totalMs + loadMs),
    // at least 1, even if the model was in memory
    load_duration: Math.max(1, nanoseconds(loadMs)),
    prompt_eval_count: usage.promptTokens,
    prompt_eval_duration: nanoseconds(timings.prefillMs),
    eval_count: usage.generatedTokens,
    eval_duration: nanoseconds(timings.decodeMs),
  }
}

/**
 * Answers a request without a prompt, which loads or unloads the model.
 *
 * @throws `forbidden` if a user's key asks to unload a model, which others may use
 */
export async function loadOrUnload(
  call: Call,
  client: EngineClient,
  { model, keep_alive: keepAliveMs }: Pick<SharedFields, 'model' | 'keep_alive'>,
  { empty }: AnswerWords,
): Promise<Answer> {
  const isUnloaded = keepAliveMs === 0
  if (isUnloaded && !mayChangeServer()) {
    throw new CllmError('forbidden', 'keep_alive: unloading a model needs the key of an admin')
  }
  const failed = (error: unknown) => publicError(error, call.logger)
  // Like Ollama, answer at once; requests in progress finish before the model is unloaded.
  if (isUnloaded) void call.engines.unload(nameOfOllamaModel(call.engines, model)).catch(failed)
  else await client.info()
  const done_reason = isUnloaded ? 'unload' : 'load'
  return { ...chunkHead(call, model), ...empty, done: true, done_reason }
}
