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
  /** The fingerprint of the engine that computes it, if known. */
  readonly fingerprint: string | undefined
  readonly events: GenerationEvents
}

/**
 * Resolves when the engine has accepted the request, and throws the engine's refusal. The request is cancelled when the
 * client disconnects. Sets the forecast headers if the client asked for them. A request without an id gets the one in the
 * answer's `X-Request-Id`.
 *
 * @param isFirst - whether it is the answer's first request, which gets the answer's id; default true
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
    // Proxies send the same X-Request-Id with all requests that they make for one of their own.
    if (isTaken) return await startGeneration(call, client, request, signal, false)
    return throwInFieldNames(error)
  }
  if (first.done === true || first.value.type !== 'start') {
    throw new CllmError('internal', 'The engine did not begin a stream with its start event')
  }
  const { id, promptTokens, forecast, fingerprint } = first.value
  if (forecast !== undefined) {
    // with several generations in one answer, the headers of the last one remain
    call.set({
      'X-Cllm-Request-Id': id,
      'X-Queue-Position': String(forecast.position),
      'X-Predicted-TTFT-Ms': String(Math.round(forecast.firstTokenMs)),
    })
  }
  // A stream that nobody begins to read must be ended: other requests may have been refused, or the client has left.
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
 * The headers in which agents name their session: Claude Code, opencode, Codex, and common ones. A session may have
 * several agents, each with its own conversation.
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
/** The session in Claude Code's `metadata.user_id`, where it is among other ids or in JSON. */
const sessionInUser = new RegExp(`session_(?:id" *: *")?(${uuid})`)
/** Codex sends its conversation's id as the key for caches; other clients may send any key that prompts share. */
const sessionAsKey = new RegExp(`^${uuid}$`)

/**
 * The program of a request: its `session`, or what clients send in its place. Undefined: it can only be recognised by the
 * prompt.
 */
export function programOf(call: Pick<Call, 'header' | 'fields'>): string | undefined {
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

/** A whole generation. */
export interface Collected {
  readonly text: string
  readonly tokens: readonly TokenId[]
  /** Log probabilities of the tokens, if requested. */
  readonly logprobs: readonly TokenLogprobs[]
  /** Log probabilities of the prompt, if requested. */
  readonly promptLogprobs: readonly PromptTokenLogprobs[]
  readonly end: EndEvent
}

/**
 * Waits for the end of a generation.
 *
 * @param onText - called with each piece of text
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
 * Generations that only compute their prompts, so that the next request finds them cached (editors do that while nothing
 * is typed), or to get their log probabilities. Drops the one token that an engine always generates.
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
 * Starts several requests at once; if one is refused, the others are cancelled. The first one gets the answer's id, as in
 * {@link startGeneration}.
 *
 * @param signals - cancel each of them; default: only the client's disconnect does
 */
export async function startGenerations(
  call: Call,
  client: EngineClient,
  requests: readonly GenerateRequest[],
  signals: readonly AbortSignal[] = [],
): Promise<Generation[]> {
  if (requests.length === 1) return [await startGeneration(call, client, requests[0]!, signals[0])]
  const refused = new AbortController()
  // A signal for each, as Node warns of a leak if more than ten listen to one.
  const either = (sample: number) =>
    AbortSignal.any([signals[sample] ?? call.signal, refused.signal])
  const starting = requests.map((request, sample) =>
    startGeneration(call, client, { ...request, sample }, either(sample), sample === 0),
  )
  return await allOrNone(starting, refused)
}

/** The results of all; if one fails, `others` aborts the rest, which has ended before the error is thrown. */
export async function allOrNone<T>(all: readonly Promise<T>[], others: AbortController) {
  try {
    return await Promise.all(all)
  } catch (error) {
    others.abort()
    await Promise.allSettled(all)
    throw error
  }
}

/** An event of one of several generations. */
export interface MergedEvent {
  /** The index of the generation. */
  readonly index: number
  readonly event: GenerationEvent
}

type Arrival = { readonly index: number } & (
  | { readonly result: IteratorResult<MergedEvent['event'], unknown> }
  | { readonly error: unknown }
)

/**
 * Merges the streams of several generations, in the order in which events arrive. The cost of an event does not grow with
 * their number, as it would with `Promise.race`, which adds a reaction to each waiting promise.
 *
 * @throws the error of the first generation that fails; the others are then ended
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
      // at most one event of each generation is here, so the array stays short
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
/** The most characters of a tenant's or session's name. */
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

/** Whether the client speaks Anthropic's API, for which some routes shared with OpenAI's answer in another form. */
export const isAnthropic = (call: Pick<Call, 'header'>): boolean =>
  call.header('anthropic-version') !== ''
