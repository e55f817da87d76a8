import { setImmediate as turnOfTheEventLoop } from 'node:timers/promises'
import { type FromEngine, type ToEngine, type Channel, hostEngine } from '@cllm/host'
import {
  type SchedulerPolicy,
  type TokenId,
  type Engine,
  PluginRegistry,
  createEngine,
} from '@cllm/core'
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
