import type { AnswerPart } from '../chat/answer/answer-part.js'
import { collectAnswer, type CollectedAnswer } from '../chat/answer/collect-answer.js'
import { type AnswerForm, createAnswerParser } from '../chat/answer/create-answer-parser.js'
import type { EngineClient, Prompt } from '@cllm/core'
import { marksOf } from '../chat/format/marks-of.js'
import type { KoaContext } from '../routes/koa-context.js'
import { publicError } from '../errors/public-error.js'
import { type EndEvent, type Generation, startGeneration } from '../request/generation.js'
import { buildRequest } from '../request/build-request.js'
import { onlyConstraint } from '../request/constraint.js'
import { withOverrides } from '../request/protocol-defaults.js'
import { ollamaDefaults } from './ollama-defaults.js'
import { chunkHead, type OllamaContext } from './ollama-context.js'
import { ollamaErrorBody } from './ollama-error.js'
import { ollamaConstraint, type SharedFields, toSettings } from './ollama-fields.js'
import { startNdjson } from '../stream/start-ndjson.js'

/** How a route puts an answer into JSON. */
export interface AnswerWords {
  /** The members, without braces, of a chunk with this part. */
  readonly part: (part: AnswerPart) => string
  /** The same for the last chunk of a stream, whose text has come before. */
  readonly empty: string
  /** The same for a whole answer. */
  readonly whole: (answer: CollectedAnswer) => string
}

/** What is answered. */
export interface OllamaQuestion {
  readonly route: '/api/chat' | '/api/generate'
  readonly fields: SharedFields
  readonly prompt: Prompt
  readonly form: AnswerForm
  readonly words: AnswerWords
}

/** Generates by the fields that both routes share, and answers whole or as NDJSON. */
export async function answer(
  ctx: KoaContext,
  client: EngineClient,
  ollama: OllamaContext,
  { route, fields, prompt, form: free, words }: OllamaQuestion,
): Promise<void> {
  const { model } = fields
  const constraint = await onlyConstraint(client, [ollamaConstraint(fields)])
  // what is held to a form leaves no room to think
  const form = constraint === undefined ? free : { ...free, thinks: false }
  const marks = marksOf(form.format)
  const { limits } = await client.info()
  const { logger } = ctx.state.transport
  const settings = toSettings(fields, limits.contextSize, ollama.unknownOptions, logger)
  const defaults = withOverrides(ollamaDefaults[route], ollama.overrides)
  const request = buildRequest(prompt, { ...settings, constraint, marks }, defaults)
  const generation = await startGeneration(ctx, client, request)
  if (fields.stream ?? true) {
    await streamAnswer(ctx, generation, { model, form, words })
    return
  }
  const whole = await collectAnswer(generation, form)
  ctx.type = 'application/json'
  ctx.body = `${chunkHead(ctx, model)}${words.whole(whole)},${ending(whole.end)}`
}

/** Answers a request that only loaded the model, or unloads it. */
export function answerLoad(
  ctx: KoaContext,
  model: string,
  words: AnswerWords,
  reason: 'load' | 'unload',
): void {
  ctx.type = 'application/json'
  ctx.body = `${chunkHead(ctx, model)}${words.empty},"done":true,"done_reason":"${reason}"}`
}

async function streamAnswer(
  ctx: KoaContext,
  { events }: Generation,
  { model, form, words }: Pick<OllamaQuestion, 'form' | 'words'> & { readonly model: string },
): Promise<void> {
  const response = startNdjson(ctx)
  const parser = createAnswerParser(form)
  const say = (parts: readonly AnswerPart[]) => {
    for (const part of parts) {
      response.write(`${chunkHead(ctx, model)}${words.part(part)},"done":false}\n`)
    }
  }
  try {
    for await (const event of events) {
      say(parser.push(event.text))
      if (event.type !== 'end') continue
      say(parser.end())
      response.end(`${chunkHead(ctx, model)}${words.empty},${ending(event)}\n`)
    }
  } catch (error) {
    if (response.destroyed) return
    const shown = publicError(error, ctx.state.transport.logger)
    response.end(`${JSON.stringify(ollamaErrorBody(shown))}\n`)
  }
}

/** The members of the last chunk; durations are nanoseconds. */
function ending({ reason, usage, timings }: EndEvent): string {
  const nanoseconds = (milliseconds: number) => Math.round(milliseconds * 1e6)
  const members = {
    done: true,
    done_reason: reason,
    total_duration: nanoseconds(timings.totalMs),
    load_duration: 0,
    prompt_eval_count: usage.promptTokens,
    prompt_eval_duration: nanoseconds(timings.prefillMs),
    eval_count: usage.generatedTokens,
    eval_duration: nanoseconds(timings.decodeMs),
  }
  return JSON.stringify(members).slice(1)
}
