import type { PromptTokenLogprobs } from '@cllm/core'
import type { Collected, EndEvent, MergedEvent } from '../../../request/generation.js'
import { collect, mergeGenerations, startGenerations } from '../../../request/generation.js'
import { promptText } from '../../../request/prompt-text.js'
import { promptProgress, sum, timingsOf, usageOf } from '../../../request/usage.js'
import type { Call, CallOf, Encoder } from '../../../routes/route.js'
import { encoded, eventStream } from '../../../routes/route.js'
import { type OpenAiContext, secondsNow, unknownFingerprint } from '../openai-context.js'
import { openAiErrorBody } from '../openai-error.js'
import { textLogprobs } from '../openai-logprobs.js'
import type { CompletionsFields, completionsSchema } from './completions-request.js'
import { answersPerPrompt, isScored, toCompletionRequests } from './completions-request.js'

/** `POST /v1/completions`, whole or streamed. */
export async function completions(call: CallOf<typeof completionsSchema>, openAi: OpenAiContext) {
  const { fields } = call
  const { model, client } = call.open(fields.model)
  const defaults = openAi.defaults['/v1/completions']
  const requests = await toCompletionRequests(fields, client, defaults)
  const echoes = await Promise.all(
    requests.map(async (request) =>
      fields.echo === true ? await promptText(client, request.prompt) : '',
    ),
  )
  const generations = await startGenerations(call, client, requests)
  const head = {
    id: `cmpl-${generations[0]!.id}`,
    object: 'text_completion',
    created: secondsNow(call),
    model,
    system_fingerprint: generations[0]!.fingerprint ?? unknownFingerprint,
  }
  if (fields.stream === true) {
    return encoded(eventStream, mergeGenerations(generations), (write) =>
      chunks(call, echoes, head, fields, write),
    )
  }
  const answers = await Promise.all(generations.map((generation) => collect(generation)))
  const hasLogprobs = fields.logprobs !== undefined
  const ends = answers.map(({ end }) => end)
  const times = answersPerPrompt(fields)
  return {
    ...head,
    choices: best(answers, times, fields.n ?? 1).map((answer, index) => {
      const { text, logprobs } = fields.max_tokens === 0 ? { text: '', logprobs: [] } : answer
      return {
        text: `${echoes[answers.indexOf(answer)] ?? ''}${text}`,
        index,
        logprobs: hasLogprobs ? textLogprobs([...answer.promptLogprobs, ...logprobs], 0) : null,
        finish_reason: answer.end.reason,
      }
    }),
    usage: usageOfAll(ends, times),
    timings: timingsOf(ends[0]!),
  }
}

/** The `most` likeliest of each `times` answers in a row, by the mean of their tokens, best first. */
function best(answers: readonly Collected[], times: number, most: number): readonly Collected[] {
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

const meanLogprob = ({ logprobs }: Collected): number =>
  sum(logprobs.map(({ logprob }) => logprob)) / Math.max(1, logprobs.length)

/** Every prompt counts once, however many answers it has. */
function usageOfAll(ends: readonly EndEvent[], times: number) {
  const usage = usageOf(ends)
  const prompts = ends.filter((_, index) => index % times === 0)
  const tokens = sum(prompts.map(({ usage }) => usage.promptTokens))
  const cached = sum(prompts.map(({ usage }) => usage.cachedTokens))
  return {
    ...usage,
    prompt_tokens: tokens,
    total_tokens: tokens + usage.completion_tokens,
    prompt_tokens_details: { cached_tokens: cached },
  }
}

function chunks(
  { clock }: Call,
  echoes: readonly string[],
  head: object,
  fields: CompletionsFields,
  write: (text: string) => void,
): Encoder<MergedEvent> {
  const { n = 1, stream_options: options, max_tokens: maxTokens } = fields
  const includeUsage = options?.include_usage ?? false
  const opening = `data: ${JSON.stringify(head).slice(0, -1)},"choices":`
  const closing = `${includeUsage ? ',"usage":null' : ''}}\n\n`
  const offsets = echoes.map(() => 0)
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
    write(
      `${opening}[{"text":${JSON.stringify(text)},"index":${index},` +
        `"logprobs":${likely(index, logprobs)},` +
        `"finish_reason":${JSON.stringify(finish)}}]${closing}`,
    )
  const ends: EndEvent[] = []
  const began = clock.now()
  return {
    begin() {
      if (isScored(fields)) return
      for (const [index, echo] of echoes.entries()) if (echo !== '') send(index, echo)
    },
    push({ index, event }) {
      if (event.type === 'progress') {
        const progress = JSON.stringify(promptProgress(event, clock.now() - began))
        write(`${opening}[],"prompt_progress":${progress}${closing}`)
        return
      }
      const { promptLogprobs } = event
      if (promptLogprobs !== undefined) send(index, echoes[index] ?? '', null, promptLogprobs)
      if (event.type === 'end') {
        send(index, maxTokens === 0 ? '' : event.text, event.reason)
        ends[index] = event
      } else if (maxTokens !== 0 && (event.text !== '' || event.logprobs !== undefined)) {
        send(index, event.text, null, event.logprobs && [event.logprobs])
      }
    },
    end() {
      if (includeUsage) {
        const usage = JSON.stringify(usageOfAll(ends, n))
        write(`${opening}[],"usage":${usage},"timings":${JSON.stringify(timingsOf(ends[0]!))}}\n\n`)
      }
      write('data: [DONE]\n\n')
    },
    fail: (error) => write(`data: ${JSON.stringify(openAiErrorBody(error))}\n\n`),
  }
}
