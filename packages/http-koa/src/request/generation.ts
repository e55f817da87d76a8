import type {
  EngineClient,
  GenerateEvent,
  GenerateRequest,
  PromptTokenLogprobs,
  TokenId,
  TokenLogprobs,
} from '@cllm/core'
import { cancelled, CllmError } from '@cllm/core'
import { throwInFieldNames } from '../fields/generation-fields.js'
import type { Call } from '../routes/route.js'
import { expectedField } from './refusals.js'

/** An event of a request that the engine has accepted. */
export type GenerationEvent = Exclude<GenerateEvent, { type: 'start' }>

/** The events of a request that the engine has accepted. */
export type GenerationEvents = AsyncIterable<GenerationEvent>

/** The last event of a generation. */
export type EndEvent = Extract<GenerateEvent, { type: 'end' }>

/** A request that the engine has accepted. */
export interface Generation {
  readonly id: string
  readonly promptTokens: number
  /** What computes it, where that is known. */
  readonly fingerprint: string | undefined
  readonly events: GenerationEvents
}

/**
 * Resolves when the engine has accepted the request, and throws the engine's refusal. When the client
 * disconnects, the request is cancelled. Sets the forecast headers if the client asked for them. A
 * request without an id gets that of its answer's `X-Request-Id`.
 *
 * @param isFirst - whether it is the first one of its answer, whose id it gets; default: it is
 */
export async function startGeneration(
  call: Call,
  client: EngineClient,
  request: GenerateRequest,
  signal: AbortSignal = call.signal,
  isFirst = true,
): Promise<Generation> {
  const isNamed = isFirst && request.id === undefined && call.id !== undefined
  const isAsked = call.header(forecastHeader).toLowerCase() === 'true'
  const session = request.session ?? programOf(call)
  const asked = {
    ...request,
    ...(session !== undefined && { session }),
    ...(isNamed && { id: call.id }),
    ...(isAsked && { forecast: true }),
  }
  const events = client.submit(asked, { signal })
  let first: IteratorResult<GenerateEvent>
  try {
    first = await events.next()
  } catch (error) {
    const isTaken = isNamed && CllmError.isInstance(error) && error.code === 'duplicate_request'
    // Proxies hand one X-Request-Id on to all requests that they make for one of theirs.
    if (isTaken) return await startGeneration(call, client, request, signal, false)
    return throwInFieldNames(error)
  }
  if (first.done === true || first.value.type !== 'start') {
    throw new CllmError('internal', 'The engine did not begin a stream with its start event')
  }
  const { id, promptTokens, forecast, fingerprint } = first.value
  if (forecast !== undefined) {
    // with several generations in one answer, the last one counts
    call.set({
      'X-Cllm-Request-Id': id,
      'X-Queue-Position': String(forecast.position),
      'X-Predicted-TTFT-Ms': String(Math.round(forecast.firstTokenMs)),
    })
  }
  // What nobody begins to read has no other end: others may have been refused, or its client has left.
  const leave = (): void => void events.return?.().catch(() => {})
  const read = (): AsyncIterator<GenerationEvent> => {
    if (signal.aborted) throw cancelled(signal)
    signal.removeEventListener('abort', leave)
    return events as AsyncIterator<GenerationEvent>
  }
  signal.addEventListener('abort', leave)
  if (signal.aborted) leave()
  return { id, promptTokens, fingerprint, events: { [Symbol.asyncIterator]: read } }
}

/**
 * In which headers agents name their session: Claude Code, opencode, Codex, and what others agree on. One
 * session may have several agents, whose conversations are their own.
 */
const sessionHeaders = [
  'x-session-id',
  'x-claude-code-session-id',
  'x-session-affinity',
  'x-opencode-session',
  'session_id',
  'session-id',
  'conversation_id',
] as const
const agentHeader = 'x-claude-code-agent-id'

const uuid = '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}'
/** As Claude Code has it in `metadata.user_id`, between other ids or in JSON. */
const sessionInUser = new RegExp(`session_(?:id" *: *")?(${uuid})`)
/** Codex has its conversation's id as a key for caches, which of others may be anything that prompts share. */
const sessionAsKey = new RegExp(`^${uuid}$`)

/**
 * The program of a request: its `session`, or what clients send in place of one. Undefined: it is learnt from
 * the prompt, if at all.
 */
function programOf(call: Pick<Call, 'header' | 'fields'>): string | undefined {
  const { metadata, prompt_cache_key: key } = (call.fields ?? {}) as {
    readonly metadata?: { readonly user_id?: unknown }
    readonly prompt_cache_key?: unknown
  }
  for (const name of sessionHeaders) {
    const session = call.header(name)
    if (session === '' || session.length > longestName) continue
    const agent = call.header(agentHeader)
    return agent === '' ? session : `${session}/${agent.slice(0, longestName)}`
  }
  if (typeof metadata?.user_id === 'string') return sessionInUser.exec(metadata.user_id)?.[1]
  return typeof key === 'string' && sessionAsKey.test(key) ? key : undefined
}

/** The header in which a client asks for a forecast of its wait. */
const forecastHeader = 'x-cllm-forecast'

/** All of a generation. */
export interface Collected {
  readonly text: string
  readonly tokens: readonly TokenId[]
  /** Those of the tokens, if requested. */
  readonly logprobs: readonly TokenLogprobs[]
  /** Those of the prompt, if requested. */
  readonly promptLogprobs: readonly PromptTokenLogprobs[]
  readonly end: EndEvent
}

/**
 * Waits for the end of a generation.
 *
 * @param onText - takes each piece of text as it comes
 */
export async function collect(
  { events }: Pick<Generation, 'events'>,
  onText?: (text: string) => void,
): Promise<Collected> {
  let text = ''
  const tokens: TokenId[] = []
  const logprobs: TokenLogprobs[] = []
  let promptLogprobs: readonly PromptTokenLogprobs[] = []
  let end: EndEvent | undefined
  for await (const event of events) {
    onText?.(event.text)
    if (event.type === 'progress') continue
    text += event.text
    promptLogprobs = event.promptLogprobs ?? promptLogprobs
    if (event.type === 'end') end = event
    else {
      tokens.push(event.token)
      if (event.logprobs !== undefined) logprobs.push(event.logprobs)
    }
  }
  return { text, tokens, logprobs, promptLogprobs, end: end! }
}

/**
 * Generations of which the prompts alone are wanted, so that the next request finds them computed (editors ask
 * for that while nothing is typed), or for their probabilities. The one token that an engine generates at least
 * is dropped.
 */
export const onlyPrompts = (generations: readonly Generation[]): readonly Generation[] =>
  generations.map((one) => ({ ...one, events: withoutAnswer(one.events) }))

async function* withoutAnswer(events: GenerationEvents): GenerationEvents {
  let promptLogprobs: readonly PromptTokenLogprobs[] | undefined
  for await (const event of events) {
    if (event.type === 'progress') yield event
    else promptLogprobs ??= event.promptLogprobs
    if (event.type !== 'end') continue
    const { stop: _, ...end } = event
    const usage = { ...event.usage, generatedTokens: 0 }
    yield { ...end, text: '', reason: 'length', usage, ...(promptLogprobs && { promptLogprobs }) }
  }
}

/**
 * Starts several requests at once; when one is refused, the others are cancelled. The first has the id
 * of the answer, as in {@link startGeneration}.
 *
 * @param signals - end each of them; default: the client leaves
 */
export async function startGenerations(
  call: Call,
  client: EngineClient,
  requests: readonly GenerateRequest[],
  signals: readonly AbortSignal[] = [],
): Promise<Generation[]> {
  if (requests.length === 1) return [await startGeneration(call, client, requests[0]!, signals[0])]
  const refused = new AbortController()
  // A signal each: Node warns of a leak where more than ten listen to one.
  const either = (sample: number) =>
    AbortSignal.any([signals[sample] ?? call.signal, refused.signal])
  const starting = requests.map((request, sample) =>
    startGeneration(call, client, { ...request, sample }, either(sample), sample === 0),
  )
  try {
    return await Promise.all(starting)
  } catch (error) {
    refused.abort()
    await Promise.allSettled(starting)
    throw error
  }
}

/** An event of one of several generations. */
export interface MergedEvent {
  /** Which of them. */
  readonly index: number
  readonly event: GenerationEvent
}

type Arrival = { readonly index: number } & (
  | { readonly result: IteratorResult<MergedEvent['event'], unknown> }
  | { readonly error: unknown }
)

/**
 * Merges the streams of several generations, in the order in which their events come. What an event
 * costs does not grow with their number: `Promise.race` would leave a reaction with each one that waits.
 *
 * @throws what the first of them throws that fails; the others are then left
 */
export async function* mergeGenerations(
  generations: readonly Generation[],
): AsyncGenerator<MergedEvent> {
  if (generations.length === 1) {
    for await (const event of generations[0]!.events) yield { index: 0, event }
    return
  }
  const iterators = generations.map(({ events }) => events[Symbol.asyncIterator]())
  const arrived: Arrival[] = []
  let wake: (() => void) | undefined
  const arrive = (arrival: Arrival): void => {
    arrived.push(arrival)
    wake?.()
  }
  const ask = (index: number): void => {
    iterators[index]!.next().then(
      (result) => arrive({ index, result }),
      (error: unknown) => arrive({ index, error }),
    )
  }
  for (const index of iterators.keys()) ask(index)
  try {
    for (let open = iterators.length; open > 0;) {
      // at most one of each is here, so that the array stays short
      const next = arrived.shift()
      if (next === undefined) {
        await new Promise<void>((resolve) => (wake = resolve))
      } else if ('error' in next) throw next.error
      else if (next.result.done === true) open--
      else {
        ask(next.index)
        yield { index: next.index, event: next.result.value }
      }
    }
  } finally {
    for (const iterator of iterators) void iterator.return?.()?.catch(() => {})
  }
}

const tenantHeader = 'x-cllm-tenant'
/** Characters of a tenant's or session's name at most. */
export const longestName = 256

/**
 * The tenant that a proxy or client names in `x-cllm-tenant`, if any. Throws `invalid_request`.
 */
export function tenantOf(call: Call): string | undefined {
  const tenant = call.header(tenantHeader)
  if (tenant.length <= longestName) return tenant === '' ? undefined : tenant
  const expected = `a name of at most ${longestName} characters`
  throw expectedField(tenantHeader, `${expected}, instead got ${tenant.length} characters`)
}

/** Whether a client of Anthropic's asks, for whom some routes of OpenAI's answer in another form. */
export const isAnthropic = (call: Pick<Call, 'header'>): boolean =>
  call.header('anthropic-version') !== ''
