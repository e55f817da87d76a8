import assert from 'node:assert/strict'
import { setImmediate as turnOfTheEventLoop } from 'node:timers/promises'
import { type FromEngine, type ToEngine, type Channel, hostEngine } from '@cllm/host'
import type {
  SchedulerPolicy,
  TokenId,
  Engine,
  EngineClient,
  GenerateEvent,
  GenerateEvents,
  GenerateRequest,
  ErrorCode,
} from '@cllm/core'
import { PluginRegistry, createEngine, CllmError } from '@cllm/core'
import { FakeBackend } from '../fakes/fake-backend.js'
import { firstComeFirstServed } from '../policy/first-come-first-served.js'

/** Tokens that a slot of the engine holds. */
export const conformanceContext = 32_768

/** The policy of tests by another name. */
const named = (name: string): SchedulerPolicy => ({ ...firstComeFirstServed, name })

/** A turn of the event loop for each token; the vector's first number counts the inputs computed. */
class ConformanceBackend extends FakeBackend {
  #embedded = 0

  override async embed(inputs: readonly (readonly TokenId[])[]): Promise<number[][]> {
    const turns = inputs.reduce((sum, { length }) => sum + length, 0)
    for (let turn = 0; turn < turns; turn++) await turnOfTheEventLoop()
    return inputs.map(({ length }) => [++this.#embedded, length])
  }
}

/** An engine with the policies that can be set while it runs. */
export interface ConformanceEngine {
  readonly engine: Engine
  readonly registry: PluginRegistry
}

/**
 * The engine that {@link testEngineClient} expects behind a client: two slots, a fake model, the
 * policies `first` (in force) and `second`. A step takes a turn of the event loop, and embedding an
 * input one for each of its tokens.
 */
export function createConformanceEngine(): ConformanceEngine {
  const registry = new PluginRegistry()
  for (const name of ['first', 'second']) {
    registry.registerPolicy({ name, doc: 'A policy to set.', create: () => named(name) })
  }
  const backend = new ConformanceBackend({
    slots: 2,
    contextSize: conformanceContext,
    batchSize: 256,
    embeddingSize: 2,
    adapters: true,
    canInfill: true,
  })
  // The fake model repeats itself: with drafts, a step would have dozens of tokens.
  const options = { speculative: 'off' }
  return { engine: createEngine({ backend, policy: named('first'), options }), registry }
}

/** Serves {@link createConformanceEngine} over a channel, in any process or on any machine. */
export function hostConformanceEngine(channel: Channel<FromEngine, ToEngine>): void {
  const { engine, registry } = createConformanceEngine()
  hostEngine(engine, registry, channel)
}

/** All that a stream had to say. */
export interface StreamContent {
  readonly events: readonly GenerateEvent[]
  readonly tokens: readonly TokenId[]
  readonly error: CllmError | undefined
}

/** More tokens than any check waits for. */
export const endless = 30_000

/** The statistics are asked so often for what must happen soon. */
const patience = 2000

/** A request for exactly this many tokens, always the same ones. */
export const greedyRequest = (text: string, maxTokens: number): GenerateRequest => ({
  prompt: { text },
  maxTokens,
  sampling: { temperature: 0, ignoreEos: true },
})

/** Reads a stream to its end. Throws what is thrown and is no {@link CllmError}. */
export async function readAll(stream: GenerateEvents): Promise<StreamContent> {
  const events: GenerateEvent[] = []
  let error: CllmError | undefined
  try {
    for await (const event of stream) events.push(event)
  } catch (thrown) {
    error = asCllmError(thrown)
  }
  const tokens = events.flatMap((event) => (event.type === 'token' ? [event.token] : []))
  return { events, tokens, error }
}

/** Reads a stream until it has given its first token. */
export async function readFirstToken(stream: GenerateEvents): Promise<void> {
  for (;;) {
    const { value, done } = await stream.next()
    assert(done !== true && value.type !== 'end', 'the stream ended before its first token')
    if (value.type === 'token') return
  }
}

/** What a call fails with, which must be a {@link CllmError} of this code. */
export async function failureOf(call: Promise<unknown>, code: ErrorCode): Promise<CllmError> {
  const failure = await call.then(
    () => assert.fail(`expected ${code}, instead it succeeded`),
    (error: unknown) => asCllmError(error),
  )
  assert.equal(failure.code, code, failure.message)
  return failure
}

/** Asserts that a stream failed with this code and message. */
export function assertFailed({ error }: StreamContent, code: ErrorCode, message?: string): void {
  assert.equal(error?.code, code, `the stream fails with ${code}`)
  if (message !== undefined) assert.equal(error?.message, message, 'the reason')
}

/** Waits until the engine does nothing and all its slots are free. */
export async function untilIdle(client: EngineClient): Promise<void> {
  let seen = ''
  for (let turn = 0; turn < patience; turn++) {
    const { waiting, running, slots } = await client.statistics()
    const busy = slots.filter(({ state }) => state !== 'idle')
    if (waiting === 0 && running === 0 && busy.length === 0) return
    seen = `${running} running, ${waiting} waiting, ${busy.length} slots taken`
    await turnOfTheEventLoop()
  }
  assert.fail(`a slot is not freed: ${seen}`)
}

function asCllmError(error: unknown): CllmError {
  if (CllmError.isInstance(error)) return error
  throw new assert.AssertionError({ message: `not a CllmError: ${String(error)}` })
}
