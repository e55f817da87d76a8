import { type PromptTokenLogprobs, requestId, type TokenLogprobs } from '@cllm/core'
import type { KoaContext } from '../../../routes/koa-context.js'
import { type EndEvent, type Generation, startGenerations } from '../../../request/generation.js'
import { mergeGenerations } from '../../../request/merge-generations.js'
import { withOverrides } from '../../../request/protocol-defaults.js'
import { openAiDefaults } from '../openai-defaults.js'
import { readFields } from '../../../fields/read-fields.js'
import { expectStream, startEventStream } from '../../../stream/start-event-stream.js'
import {
  answersPerPrompt,
  type CompletionsFields,
  completionsSchema,
  isScored,
  toCompletionRequests,
} from './completions-request.js'
import { openModel } from '../../../engines/open-model.js'
import { type OpenAiContext, secondsNow, unknownFingerprint } from '../openai-context.js'
import { openAiErrorBody } from '../openai-error.js'
import { textLogprobs } from '../openai-logprobs.js'
import { promptProgress } from '../../../request/prompt-progress.js'
import { promptText } from '../../../request/prompt-text.js'
import { timingsOf, usageOf } from '../../../request/usage.js'
import { failStream } from '../../../stream/fail-stream.js'

/** `POST /v1/completions`, whole or streamed. */
export async function completions(ctx: KoaContext, openAi: OpenAiContext): Promise<void> {
  const fields = await readFields(ctx, completionsSchema, openAi.unknownFields)
  expectStream(ctx, fields.stream)
  const { model, client } = openModel(openAi.directory, fields.model)
  const defaults = withOverrides(openAiDefaults['/v1/completions'], openAi.overrides)
  const requests = await toCompletionRequests(fields, client, defaults)
  const echoes = await Promise.all(
    requests.map(async (request) =>
      fields.echo === true ? await promptText(client, request.prompt) : '',
    ),
  )
  const generations = await startGenerations(ctx, client, requests)
  const head = {
    id: `cmpl-${requestId(ctx.state.transport.random)}`,
    object: 'text_completion',
    created: secondsNow(ctx),
    model,
    system_fingerprint: generations[0]?.fingerprint ?? unknownFingerprint,
  }
  if (fields.stream === true) {
    await stream(ctx, generations, echoes, head, fields)
    return
  }
  const promptOnly = fields.max_tokens === 0
  const answers = await Promise.all(
    generations.map((generation) => collect(generation, promptOnly)),
  )
  const hasLogprobs = fields.logprobs !== undefined
  const ends = answers.map(({ end }) => end)
  const times = answersPerPrompt(fields)
  ctx.body = {
    ...head,
    choices: best(answers, times, fields.n ?? 1).map((answer, index) => ({
      text: `${echoes[answers.indexOf(answer)] ?? ''}${answer.text}`,
      index,
      logprobs: hasLogprobs ? textLogprobs([...answer.prompt, ...answer.logprobs], 0) : null,
      finish_reason: answer.end.reason,
    })),
    usage: usageOfAll(ends, times),
    timings: timingsOf(ends[0]!),
  }
}

/** The `most` likeliest of each `times` answers in a row, by the mean of their tokens, best first. */
function best(answers: readonly Answer[], times: number, most: number): readonly Answer[] {
  if (times === most) return answers
  return answers.flatMap((_, index) =>
    index % times === 0
      ? answers
          .slice(index, index + times)
          .toSorted((a, b) => meanLogprob(b) - meanLogprob(a))
          .slice(0, most)
      : [],
  )
}

const meanLogprob = ({ logprobs }: Answer): number =>
  logprobs.reduce((sum, { logprob }) => sum + logprob, 0) / Math.max(1, logprobs.length)

/** Every prompt counts once, however many answers it has. */
function usageOfAll(ends: readonly EndEvent[], times: number) {
  const usage = usageOf(ends)
  const prompts = ends.filter((_, index) => index % times === 0)
  const tokens = prompts.reduce((sum, { usage }) => sum + usage.promptTokens, 0)
  const cached = prompts.reduce((sum, { usage }) => sum + usage.cachedTokens, 0)
  return {
    ...usage,
    prompt_tokens: tokens,
    total_tokens: tokens + usage.completion_tokens,
    prompt_tokens_details: { cached_tokens: cached },
  }
}

interface Answer {
  readonly text: string
  /** The prompt's, if requested. */
  readonly prompt: readonly PromptTokenLogprobs[]
  readonly logprobs: readonly TokenLogprobs[]
  readonly end: EndEvent
}

async function collect({ events }: Generation, promptOnly: boolean): Promise<Answer> {
  let text = ''
  let prompt: readonly PromptTokenLogprobs[] = []
  const logprobs: TokenLogprobs[] = []
  let end: EndEvent | undefined
  for await (const event of events) {
    if (event.type === 'progress') continue
    prompt = event.promptLogprobs ?? prompt
    if (event.type === 'end') end = event
    if (promptOnly) continue
    text += event.text
    if (event.type === 'token' && event.logprobs !== undefined) logprobs.push(event.logprobs)
  }
  return { text, prompt, logprobs, end: end! }
}

async function stream(
  ctx: KoaContext,
  generations: readonly Generation[],
  echoes: readonly string[],
  head: object,
  fields: CompletionsFields,
): Promise<void> {
  const { n = 1, stream_options: options, max_tokens: maxTokens } = fields
  const includeUsage = options?.include_usage ?? false
  const response = startEventStream(ctx)
  const opening = `data: ${JSON.stringify(head).slice(0, -1)},"choices":`
  const closing = `${includeUsage ? ',"usage":null' : ''}}\n\n`
  const offsets = generations.map(() => 0)
  const likely = (index: number, tokens: readonly PromptTokenLogprobs[]): string => {
    if (tokens.length === 0) return 'null'
    const offset = offsets[index] ?? 0
    offsets[index] = offset + tokens.reduce((sum, { text }) => sum + text.length, 0)
    return JSON.stringify(textLogprobs(tokens, offset))
  }
  const send = (
    index: number,
    text: string,
    finish: string | null = null,
    logprobs: readonly PromptTokenLogprobs[] = [],
  ) =>
    response.write(
      `${opening}[{"text":${JSON.stringify(text)},"index":${index},` +
        `"logprobs":${likely(index, logprobs)},` +
        `"finish_reason":${JSON.stringify(finish)}}]${closing}`,
    )
  const ends: EndEvent[] = []
  const began = ctx.state.transport.clock.now()
  try {
    if (!isScored(fields)) {
      for (const [index, echo] of echoes.entries()) if (echo !== '') send(index, echo)
    }
    for await (const { index, event } of mergeGenerations(generations)) {
      if (event.type === 'progress') {
        const progress = JSON.stringify(
          promptProgress(event, ctx.state.transport.clock.now() - began),
        )
        response.write(`${opening}[],"prompt_progress":${progress}${closing}`)
        continue
      }
      const { promptLogprobs } = event
      if (promptLogprobs !== undefined) send(index, echoes[index] ?? '', null, promptLogprobs)
      if (event.type === 'end') {
        send(index, maxTokens === 0 ? '' : event.text, event.reason)
        ends[index] = event
      } else if (maxTokens !== 0 && (event.text !== '' || event.logprobs !== undefined)) {
        send(index, event.text, null, event.logprobs && [event.logprobs])
      }
    }
    if (includeUsage) {
      const usage = JSON.stringify(usageOfAll(ends, n))
      response.write(
        `${opening}[],"usage":${usage},"timings":${JSON.stringify(timingsOf(ends[0]!))}}\n\n`,
      )
    }
    response.end('data: [DONE]\n\n')
  } catch (error) {
    failStream(ctx, response, error, (shown) =>
      response.end(`data: ${JSON.stringify(openAiErrorBody(shown))}\n\n`),
    )
  }
}
