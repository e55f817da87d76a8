import type { EngineClient, GenerateRequest, PromptTokenLogprobs } from '@cllm/core'
import { z } from 'zod'
import { boolean, integer } from '../../fields/fields.js'
import { mixedPrompts, readPrompts } from '../../fields/mixed-prompts.js'
import { type ProtocolDefaults, requestsFor, onlyConstraint } from '../../request/build-request.js'
import { gapPrompt, promptText } from '../../request/prompt-text.js'
import { expectedField, unsupported } from '../../request/refusals.js'
import { anyTokensField, sharedFields, sharedSettings, askedConstraints } from './openai-fields.js'
import {
  collect,
  mergeGenerations,
  onlyPrompts,
  startGenerations,
} from '../../request/generation.js'
import type { Collected, EndEvent, Generation, MergedEvent } from '../../request/generation.js'
import { StreamTimings, sum, timingsOf, usageOf } from '../../request/usage.js'
import { type CallOf, encoded, type Encoder, eventStream } from '../../routes/route.js'
import { secondsNow, unknownFingerprint, chunkWriter, textLogprobs } from './openai-answer.js'
import type { OpenAiContext } from './openai-answer.js'

/** The body of `POST /v1/completions`. */
export const completionsSchema = z.object({
  prompt: mixedPrompts(128),
  ...sharedFields,
  // 0 with echo and logprobs: only scores the prompt
  max_tokens: anyTokensField.optional(),
  best_of: integer(1, 128).optional(),
  echo: boolean.optional(),
  logprobs: integer(0, 5).optional(),
  post_sampling_probs: boolean.optional(),
  suffix: z.string('a string').optional(),
})

/** A checked body. */
export type CompletionsFields = z.output<typeof completionsSchema>

/** How many answers to generate per prompt; the best `n` are returned. */
const answersPerPrompt = ({ n = 1, best_of: bestOf = n }: CompletionsFields): number => bestOf

/** The requests of a body, grouped by prompt. */
export async function toCompletionRequests(
  fields: CompletionsFields,
  client: EngineClient,
  defaults: ProtocolDefaults,
): Promise<GenerateRequest[]> {
  refuse(fields)
  const constraint = await onlyConstraint(client, askedConstraints(fields))
  const times = answersPerPrompt(fields)
  const ranks = times > (fields.n ?? 1)
  const wanted = likeliestOf(fields)
  const isOfDraw = wanted !== undefined && fields.post_sampling_probs === true
  // ranking answers needs log probabilities even if the client asks for none
  const modelLogprobs = wanted ?? (ranks ? 0 : undefined)
  const promptLogprobs = isScored(fields) ? wanted : undefined
  const settings = {
    ...(await sharedSettings(fields, client)),
    ...(isScored(fields) && scoringSettings(fields)),
    constraint,
    logprobs: isOfDraw ? undefined : modelLogprobs,
    drawLogprobs: isOfDraw ? wanted : undefined,
    promptLogprobs,
  }
  const given = await readPrompts(client, fields.prompt)
  const { suffix = '' } = fields
  // with a suffix, each prompt is the text before the gap
  const prompts =
    suffix === ''
      ? given
      : await Promise.all(given.map((prompt) => gapPrompt(client, prompt, suffix)))
  if (prompts.length * times > 128) {
    throw expectedField(ranks ? 'best_of' : 'n', 'at most 128 answers to all prompts together')
  }
  return await requestsFor(client, prompts, settings, defaults, times)
}

/** Whether the client also wants the log probabilities of the prompt. */
const isScored = (fields: CompletionsFields): boolean =>
  fields.echo === true && likeliestOf(fields) !== undefined

/**
 * Settings for scoring a text. At least one token is generated. Clients such as lm-evaluation-harness ask for one and cut
 * it off, so it must be there even if the model would stop.
 */
const scoringSettings = ({ max_tokens: maxTokens }: CompletionsFields) =>
  maxTokens === undefined || maxTokens > 1 ? {} : { maxTokens: 1, ignoreEos: true }

/** The number of candidates wanted with each token; undefined: no log probabilities. */
const likeliestOf = ({ logprobs, n_probs: most = 0 }: CompletionsFields): number | undefined =>
  logprobs ?? (most > 0 ? most : undefined)

function refuse(fields: CompletionsFields): void {
  if (fields.max_tokens === 0 && !isScored(fields)) {
    throw expectedField('max_tokens', '1 or more; 0 only together with echo and logprobs')
  }
  const { n = 1, best_of: bestOf = n } = fields
  if (bestOf < n) throw expectedField('best_of', `at least n, which is ${n}`)
  if (bestOf > n && fields.stream === true) {
    throw unsupported('best_of', 'not with stream: which are the best is known only at the end')
  }
}

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
  const started = await startGenerations(call, client, requests)
  const generations = fields.max_tokens === 0 ? onlyPrompts(started) : started
  const head = {
    id: `cmpl-${generations[0]!.id}`,
    object: 'text_completion',
    created: secondsNow(call),
    model,
    system_fingerprint: generations[0]!.fingerprint ?? unknownFingerprint,
  }
  if (fields.stream === true) {
    return encoded(eventStream, mergeGenerations(generations), (write) =>
      completionChunks(call, generations, echoes, head, write),
    )
  }
  const answers = await Promise.all(generations.map((generation) => collect(generation)))
  const hasLogprobs = likeliestOf(fields) !== undefined
  const times = answersPerPrompt(fields)
  return {
    ...head,
    choices: best(answers, times, fields.n ?? 1).map((answer, index) => ({
      text: `${echoes[answers.indexOf(answer)] ?? ''}${answer.text}`,
      index,
      logprobs: hasLogprobs ? textLogprobs([...answer.promptLogprobs, ...answer.logprobs]) : null,
      finish_reason: answer.end.reason,
    })),
    usage: usageOf(answers, times),
    timings: timingsOf(answers[0]!.end),
  }
}

/** Of each `times` consecutive answers the `most` likeliest, by the mean of their log probabilities, best first. */
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

function completionChunks(
  { clock, fields }: CallOf<typeof completionsSchema>,
  generations: readonly Generation[],
  echoes: readonly string[],
  head: object,
  write: (text: string) => void,
): Encoder<MergedEvent> {
  const { n = 1, stream_options: options, return_progress: showsProgress } = fields
  const includeUsage = options?.include_usage ?? false
  const chunks = chunkWriter(head, includeUsage, write)
  const positions = echoes.map(() => ({ characters: 0 }))
  const send = (
    index: number,
    text: string,
    finish_reason: string | null = null,
    tokens: readonly PromptTokenLogprobs[] = [],
    told: object | false = false,
  ) => {
    const logprobs = tokens.length === 0 ? null : textLogprobs(tokens, positions[index])
    const more = told ? `,"timings":${JSON.stringify(told)}` : ''
    chunks.send(JSON.stringify({ text, index, logprobs, finish_reason }), more)
  }
  const ended: { readonly end: EndEvent }[] = []
  const timings = generations.map(
    ({ promptTokens }) => new StreamTimings(clock, promptTokens, showsProgress),
  )
  return {
    begin() {
      if (isScored(fields)) return
      for (const [index, echo] of echoes.entries()) if (echo !== '') send(index, echo)
    },
    push({ index, event }) {
      if (event.type === 'progress') {
        const progress = timings[index]!.progress(event)
        if (progress) chunks.send('', `,"prompt_progress":${JSON.stringify(progress)}`)
        return
      }
      const { promptLogprobs } = event
      if (promptLogprobs !== undefined) send(index, echoes[index] ?? '', null, promptLogprobs)
      if (event.type === 'end') {
        send(index, event.text, event.reason, [], !includeUsage && timingsOf(event))
        ended[index] = { end: event }
        return
      }
      const timed = fields.timings_per_token === true && timings[index]!.onToken()
      if (event.text === '' && event.logprobs === undefined) return
      send(index, event.text, null, event.logprobs && [event.logprobs], timed)
    },
    end: () => chunks.end(usageOf(ended, n), ended[0]!.end),
    fail: chunks.fail,
  }
}
