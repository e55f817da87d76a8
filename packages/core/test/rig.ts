import {
  type AddressedEvent,
  CllmError,
  createEngine,
  defaultSampling,
  defined,
  type EncodeOptions,
  type Engine,
  type EngineOptions,
  type GenerateEvent,
  type GenerateRequest,
  type Logger,
  type Plan,
  PluginRegistry,
  type Random,
  type SchedulerPolicy,
  type SequenceView,
  type SlotFiles,
  type StateFiles,
  type StateMemorySource,
  SimulatedClock,
  silentLogger,
  type StepResult,
  type TokenId,
} from '@cllm/core'
import { LocalEngineClient } from '@cllm/host'
import {
  runUntilIdle,
  drive,
  FakeBackend,
  type FakeBackendOptions,
  FakeTokenizer,
  firstComeFirstServed,
} from '@cllm/testing'
import type { Test } from 'tap'

/** A backend that says whether it is stepping. */
export class WatchedBackend extends FakeBackend {
  stepping = false

  override async step(batch: Parameters<FakeBackend['step']>[0]): Promise<StepResult> {
    this.stepping = true
    try {
      return await super.step(batch)
    } finally {
      this.stepping = false
    }
  }
}

/** Tokenizes long texts a thousand characters at a time. */
class PartsTokenizer extends FakeTokenizer {
  parts = 0;

  *encodeInParts(text: string, options: EncodeOptions = {}): Generator<TokenId[], void> {
    for (let start = 0; start < text.length; start += 1000) {
      this.parts++
      yield this.encode(text.slice(start, start + 1000), { ...options, addBos: start === 0 })
    }
  }
}

/** A backend whose long texts take many turns of the event loop to tokenize. */
export class PartsBackend extends WatchedBackend {
  override readonly tokenizer = new PartsTokenizer()
}

/** Plans nothing. */
export const empty: Plan = { admit: [], preempt: [], reject: [], run: [] }

/** A policy with this plan. */
export const policyOf = (
  plan: SchedulerPolicy['plan'],
  observe?: SchedulerPolicy['observe'],
): SchedulerPolicy => ({ name: 'tested', plan, ...(observe === undefined ? {} : { observe }) })

/** First come, first served; remembers each state that it planned for. */
export function watching() {
  const seen: { now: number; free: number; running: string[]; waiting: string[] }[] = []
  const policy = policyOf((state) => {
    const ids = (views: Iterable<SequenceView>) => [...views].map(({ id }) => id)
    const { now, freeSlots: free } = state
    seen.push({ now, free, running: ids(state.running), waiting: ids(state.waiting) })
    return firstComeFirstServed.plan(state)
  })
  return { seen, policy }
}

/** A logger that keeps its errors. */
export function loggerOf() {
  const errors: { fields: Readonly<Record<string, unknown>>; message: string }[] = []
  const logger: Logger = {
    ...silentLogger,
    error: (fields, message) => void errors.push({ fields, message }),
  }
  return { errors, logger }
}

/** Counts up. */
export const counting = (): Random => {
  let next = 0
  return { uint32: () => next++ }
}

/** What the engine's listener was told in one call. */
export interface Batch {
  readonly at: number
  /** Steps started so far. */
  readonly steps: number
  readonly stepping: boolean
  readonly events: readonly AddressedEvent[]
}

export interface RigOptions extends Omit<FakeBackendOptions, 'clock'> {
  readonly backend?: (options: FakeBackendOptions) => WatchedBackend
  readonly policy?: SchedulerPolicy
  readonly fallbackPolicy?: () => SchedulerPolicy
  readonly options?: Partial<EngineOptions>
  readonly logger?: Logger
  readonly registry?: PluginRegistry
  readonly stateFiles?: StateFiles
  readonly stateMemory?: StateMemorySource
  readonly slotFiles?: SlotFiles
}

/** An engine on a fake backend and simulated time whose steps take 10 ms. */
export function rig(options: RigOptions = {}) {
  const { backend: make = (given) => new WatchedBackend(given), registry, ...rest } = options
  const clock = new SimulatedClock(1000)
  const backend = make({ clock, stepMs: () => 10, batchSize: 256, ...rest })
  const { policy = firstComeFirstServed, logger = silentLogger } = options
  const random = counting()
  const engineOptions = options.options ?? {}
  const parts = { backend, policy, clock, random, logger, options: engineOptions }
  const { fallbackPolicy, stateFiles, stateMemory, slotFiles } = options
  const more = defined({ fallbackPolicy, stateFiles, stateMemory, slotFiles })
  const engine = createEngine({ ...parts, ...more })
  const batches: Batch[] = []
  engine.observe({
    onEvents: (events) => {
      const { steps, stepping } = backend
      batches.push({ at: clock.now(), steps: steps.length, stepping, events })
    },
  })
  const client = new LocalEngineClient(engine, registry ?? new PluginRegistry(), random)
  const run = async <T>(promise: Promise<T>): Promise<T> => await drive(clock, promise)
  const ask = async (request: GenerateRequest): Promise<Answer> =>
    await run(collect(client.submit(request)))
  return { clock, backend, engine, client, batches, run, ask }
}

export type Rig = ReturnType<typeof rig>

/** What the rig's model says after these tokens when asked by `greedy`. */
export const expectedTokens = (backend: FakeBackend, prompt: readonly TokenId[], count: number) =>
  backend.continuation(
    prompt,
    { ...defaultSampling, temperature: 0, ignoreEos: true, seed: 0 },
    count,
  )

/** All that a stream had to say. */
export interface Answer {
  readonly events: readonly GenerateEvent[]
  readonly tokens: readonly TokenId[]
  readonly text: string
  readonly end: (GenerateEvent & { readonly type: 'end' }) | undefined
  readonly error: CllmError | undefined
}

export async function collect(stream: AsyncIterable<GenerateEvent>): Promise<Answer> {
  const events: GenerateEvent[] = []
  let error: CllmError | undefined
  try {
    for await (const event of stream) events.push(event)
  } catch (thrown) {
    if (!CllmError.isInstance(thrown)) throw thrown
    error = thrown
  }
  return { ...summarize(events), events, error }
}

export function summarize(events: readonly GenerateEvent[]): Omit<Answer, 'events' | 'error'> {
  return {
    tokens: events.flatMap((event) => (event.type === 'token' ? [event.token] : [])),
    text: events.map((event) => (event.type === 'start' ? '' : event.text)).join(''),
    end: events.find((event) => event.type === 'end'),
  }
}

/** Distinct tokens without meaning, `count` of them, other ones for each `family`. */
export const promptOf = (count: number, family = 0): TokenId[] =>
  Array.from(
    { length: count },
    (_, index) => 4 + ((index * 7 + family * 31 + index * family) % 250),
  )

/** Greedy, for this many tokens. */
export const greedy = (tokens: readonly TokenId[], maxTokens: number): GenerateRequest => ({
  prompt: { tokens },
  maxTokens,
  sampling: { temperature: 0, ignoreEos: true },
})

/** What is wrong at the end if not everything was given back. */
export function leftovers({ backend, engine }: { backend: FakeBackend; engine: Engine }): unknown {
  const { running, waiting, slots } = engine.statistics()
  return {
    violations: backend.violations,
    samplers: backend.samplers.size,
    running,
    waiting,
    busySlots: slots.filter(({ state }) => state !== 'idle'),
    wrongSlots: slots.filter(({ slot, tokens }) => tokens !== backend.content(slot).length),
  }
}

/** What {@link leftovers} is when all is well. */
export const nothingLeft = {
  violations: [],
  samplers: 0,
  running: 0,
  waiting: 0,
  busySlots: [],
  wrongSlots: [],
}

/** Asserts that the engine gave back everything once it is idle. */
export async function isDone(
  t: Test,
  made: Pick<Rig, 'backend' | 'engine' | 'clock'>,
): Promise<void> {
  await runUntilIdle(made.clock)
  t.match(leftovers(made), nothingLeft)
}
