import { defaultMaxTokens, type EngineClient, type GenerateRequest } from '@cllm/core'
import { InFlightRequest } from '@cllm/host'
import type { AnswerForm } from '../chat/answer/create-answer-parser.js'
import { goesOn } from '../routes/koa-context.js'
import type { Call } from '../routes/route.js'
import type { Generation, GenerationEvent } from './generation.js'
import { startGeneration, startGenerations } from './generation.js'

/** After this many tokens beyond the budget, thinking ends even in mid-sentence. */
const slack = 48
/** The most characters of a mark. */
const longestTail = 256
const sentenceEnd = /[.!?…。！？:;]["')\]]*\s*$|\n\s*$/

/** How long a model may think. */
export interface ThinkingLimit {
  /** The number of tokens; the current sentence may be finished then. */
  readonly budget: number
  readonly form: AnswerForm
}

/**
 * Starts requests that think for a limited number of tokens: the request is cancelled at the end of a sentence, and
 * continued behind the mark that ends thinking, like a paused request.
 *
 * @param limit - undefined: no limit
 */
export async function startThinking(
  call: Call,
  client: EngineClient,
  requests: readonly GenerateRequest[],
  limit: ThinkingLimit | undefined,
): Promise<Generation[]> {
  const all = requests.length === 1 ? requests : requests.map((one, sample) => ({ ...one, sample }))
  const thinking = limit?.form.thinks === true ? limit.form.format.thinking : undefined
  if (limit === undefined || thinking === undefined) {
    return await startGenerations(call, client, all)
  }
  const leaving = all.map(() => new AbortController())
  const signals = leaving.map(({ signal }) => AbortSignal.any([call.signal, signal]))
  const generations = await startGenerations(call, client, all, signals)
  return generations.map((generation, index) => {
    const leave = (): void => leaving[index]!.abort(goesOn)
    const parts = { request: all[index]!, generation, limit, leave, ...thinking }
    return { ...generation, events: limited(call, client, parts) }
  })
}

interface Limited {
  readonly request: GenerateRequest
  readonly generation: Generation
  readonly limit: ThinkingLimit
  /** Ends the generation, which is then continued by another one. */
  readonly leave: () => void
  readonly open: string
  readonly close: string
}

async function* limited(
  call: Call,
  client: EngineClient,
  { request, generation, limit, leave, open, close }: Limited,
): AsyncGenerator<GenerationEvent> {
  const { clock } = call
  const entry = new InFlightRequest(generation.id, request, clock.now())
  entry.isAccepted = true
  /** The end of the text so far, where a mark or a sentence may end. */
  let tail = ''
  let thoughts = 0
  let [hasBegun, hasEnded] = [limit.form.thinkingIsOpen, false]
  for await (const event of generation.events) {
    entry.take(event, clock.now())
    yield event
    if (event.type === 'end') return
    if (event.type === 'progress') continue
    tail = (tail + event.text).slice(-longestTail - event.text.length)
    hasBegun ||= tail.includes(open)
    hasEnded ||= tail.includes(close)
    if (!hasBegun || hasEnded) continue
    thoughts++
    if (thoughts < limit.budget) continue
    if (!sentenceEnd.test(tail) && thoughts < limit.budget + slack) continue
    leave()
    break
  }
  // a constraint defines the text behind the mark itself
  const ending = request.sampling?.constraint === undefined ? `\n${close}\n\n` : `\n${close}`
  const closing = await client.tokenize(ending, { addBos: false })
  entry.tokens.push(...closing)
  yield { type: 'token', token: closing[0] ?? 0, text: ending }
  const continued = {
    ...entry.continuedAt(clock.now()),
    // the first part keeps the answer's id, by which the log finds both parts
    id: `${generation.id}~`,
    maxTokens: Math.max(request.maxTokens ?? defaultMaxTokens, entry.tokens.length + 1),
    progress: false,
  }
  // a signal of its own, as for the first part
  const next = await startGeneration(call, client, continued, AbortSignal.any([call.signal]))
  for await (const event of next.events) {
    // the first part's cached tokens were only known to the engine that ended it, so none are reported
    if (event.type === 'end') yield { ...event, usage: { ...event.usage, cachedTokens: 0 } }
    else yield event
  }
}
