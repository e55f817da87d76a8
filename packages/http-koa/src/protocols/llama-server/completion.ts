import {
  type EngineClient,
  type EngineInfo,
  type GenerateRequest,
  type TokenId,
  type TokenLogprobs,
} from '@cllm/core'
import type { KoaContext } from '../../routes/koa-context.js'
import { type EndEvent, type Generation, startGenerations } from '../../request/generation.js'
import { mergeGenerations } from '../../request/merge-generations.js'
import { withOverrides } from '../../request/protocol-defaults.js'
import { llamaServerDefaults } from './llama-server-defaults.js'
import { probabilities } from './probabilities.js'
import { readFields } from '../../fields/read-fields.js'
import { expectStream, startEventStream } from '../../stream/start-event-stream.js'
import { timingsOf } from '../../request/usage.js'
import {
  type CompletionFields,
  completionSchema,
  isListed,
  mostTokens,
  toCompletionRequests,
} from './completion-request.js'
import { generationSettings } from './generation-settings.js'
import type { LlamaServerContext } from './llama-server-context.js'
import { llamaServerErrorBody } from './llama-server-error.js'
import { pickFields } from './pick-fields.js'
import { promptOnly } from './prompt-only.js'
import { promptTextWithBos } from '../../request/prompt-text.js'
import { promptProgress } from '../../request/prompt-progress.js'
import { StreamTimings } from '../../request/stream-timings.js'
import { expectedField } from '../../request/expected-field.js'
import { failStream } from '../../stream/fail-stream.js'

/** `POST /completion`, whole or streamed. */
export async function completion(ctx: KoaContext, llama: LlamaServerContext): Promise<void> {
  const fields = await readFields(ctx, completionSchema, llama.unknownFields)
  expectStream(ctx, fields.stream)
  await complete(ctx, llama, llama.directory.open(fields.model), fields)
}

/** Continues a prompt, or several, as the fields say. */
export async function complete(
  ctx: KoaContext,
  llama: LlamaServerContext,
  client: EngineClient,
  fields: CompletionFields,
): Promise<void> {
  const defaults = withOverrides(llamaServerDefaults['/completion'], llama.overrides)
  const requests = await toCompletionRequests(fields, client, defaults)
  const isList = isListed(fields)
  if (requests.length > 128) {
    throw expectedField('prompt', 'at most 128 answers to all prompts together')
  }
  const isPromptOnly = mostTokens(fields) === 0
  const info = await client.info()
  const model = fields.model ?? llama.directory.list()[0] ?? ''
  const about = await Promise.all(
    requests.map(async (request) => {
      const prompt = await promptTextWithBos(client, info, request.prompt)
      const asked = isPromptOnly ? { ...request, maxTokens: 0 } : request
      const returnTokens = fields.return_tokens ?? false
      return { model, prompt, request: asked, info, returnTokens }
    }),
  )
  const started = await startGenerations(ctx, client, requests)
  const generations = isPromptOnly ? started.map(promptOnly) : started
  const pick = (answer: object) => pickFields(answer, fields.response_fields)
  if (fields.stream === true) {
    await stream(ctx, generations, about, { pick, fields })
    return
  }
  const answers = await Promise.all(
    generations.map(async (generation, index) => pick(await collect(generation, index, about))),
  )
  ctx.body = isList ? answers : answers[0]
}

interface About {
  readonly model: string
  readonly prompt: string
  readonly request: GenerateRequest
  readonly info: EngineInfo
  readonly returnTokens: boolean
}

async function collect(
  { events }: Generation,
  index: number,
  abouts: readonly About[],
): Promise<object> {
  const about = abouts[index]!
  let content = ''
  const tokens: TokenId[] = []
  const logprobs: TokenLogprobs[] = []
  let end: EndEvent | undefined
  for await (const event of events) {
    content += event.text
    if (event.type === 'end') end = event
    if (event.type !== 'token') continue
    if (about.returnTokens) tokens.push(event.token)
    if (event.logprobs !== undefined) logprobs.push(event.logprobs)
  }
  return {
    index,
    content,
    tokens,
    ...probabilities(logprobs, about.request),
    ...ending(end!, about, content.includes('\n')),
  }
}

async function stream(
  ctx: KoaContext,
  generations: readonly Generation[],
  abouts: readonly About[],
  {
    pick,
    fields,
  }: { readonly pick: (answer: object) => object; readonly fields: CompletionFields },
): Promise<void> {
  const response = startEventStream(ctx)
  const progress = generations.map(() => ({ count: 0, hasNewLine: false }))
  const isTimed = fields.timings_per_token === true
  const timings = generations.map(
    ({ promptTokens }) => new StreamTimings(ctx.state.transport.clock, promptTokens),
  )
  try {
    for await (const { index, event } of mergeGenerations(generations)) {
      const state = progress[index]!
      state.hasNewLine ||= event.text.includes('\n')
      const content = JSON.stringify(event.text)
      if (event.type === 'progress') {
        const clock = timings[index]!
        const { processedTokens, cachedTokens } = event
        const chunk = {
          index,
          content: '',
          tokens: [],
          stop: false,
          id_slot: -1,
          tokens_predicted: 0,
          tokens_evaluated: event.promptTokens,
          ...(isTimed && { timings: clock.onPrompt(processedTokens, cachedTokens) }),
          prompt_progress: promptProgress(event, clock.elapsedMs),
        }
        response.write(`data: ${JSON.stringify(chunk)}\n\n`)
        continue
      }
      if (event.type === 'token') {
        state.count++
        const { logprobs } = event
        const probable =
          logprobs === undefined
            ? ''
            : JSON.stringify(probabilities([logprobs], abouts[index]!.request)).slice(1, -1)
        const timed = isTimed ? timings[index]!.onToken() : undefined
        response.write(
          `data: {"index":${index},"content":${content},"tokens":[${event.token}],"stop":false,` +
            `"id_slot":-1,"tokens_predicted":${state.count},` +
            `"tokens_evaluated":${generations[index]!.promptTokens}${probable && ','}${probable}` +
            `${timed === undefined ? '' : `,"timings":${JSON.stringify(timed)}`}}\n\n`,
        )
        continue
      }
      const last = {
        index,
        content: event.text,
        tokens: [],
        ...ending(event, abouts[index]!, state.hasNewLine),
      }
      response.write(`data: ${JSON.stringify(pick(last))}\n\n`)
    }
    response.end()
  } catch (error) {
    failStream(ctx, response, error, (shown) =>
      response.end(`data: ${JSON.stringify(llamaServerErrorBody(shown))}\n\n`),
    )
  }
}

/** What llama-server says at the end. */
function ending(
  end: EndEvent,
  { model, prompt, request, info }: About,
  hasNewLine: boolean,
): object {
  const { usage } = end
  const total = usage.promptTokens + usage.generatedTokens
  return {
    id_slot: -1,
    stop: true,
    model,
    tokens_predicted: usage.generatedTokens,
    tokens_evaluated: usage.promptTokens,
    generation_settings: generationSettings(request, info),
    prompt,
    has_new_line: hasNewLine,
    // the slot was full before the answer was as long as it may be
    // or it went on without its oldest tokens
    truncated:
      total > info.limits.contextSize + 1 ||
      (end.reason === 'length' && usage.generatedTokens < (request.maxTokens ?? Infinity)),
    stop_type: end.reason === 'length' ? 'limit' : end.stop === undefined ? 'eos' : 'word',
    stopping_word: end.stop ?? '',
    tokens_cached: total,
    timings: timingsOf(end),
  }
}
