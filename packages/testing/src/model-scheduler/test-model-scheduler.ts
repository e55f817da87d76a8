import assert from 'node:assert/strict'
import type {
  EngineClient,
  ModelDecision,
  ModelScheduler,
  ModelSchedulerDefinition,
  ModelView,
} from '@cllm/core'
import { Catalog, checkModelDecision, SimulatedClock, pause } from '@cllm/core'
import { type LoadedModel, ModelPool } from '@cllm/host'
import { Draw } from '../router/simulated-workers.js'
import { check, checkDefined, type TestContext } from '../test-context.js'
import { runUntilIdle } from '../time/simulated-time.js'

/** What a model scheduler claims, and the options that it is tested with. */
export interface TestModelSchedulerOptions {
  /** Default: its defaults. */
  readonly options?: Readonly<Record<string, unknown>>
  /**
   * Milliseconds for which it may let a request of this priority wait while the models in memory are in use,
   * where the loads of its model and of the one that leaves take `swapMs` together. Default: 0.
   */
  readonly maxHoldMs?: (swapMs: number, priority: number) => number
  /** Random loads; default 10. */
  readonly runs?: number
}

const loadMs = { least: 100, most: 3000 }
/** The longest use of a model. */
const useMs = 4000
const requests = 150

/**
 * The conformance suite of model schedulers, with the pool that servers have, on simulated time: every decision can
 * be carried out, so that no model in use is unloaded and no more are in memory than may be; every request has its
 * model within the time that is claimed and that of the uses and loads before it; the same questions get the same
 * answers; nothing that it is shown changes.
 */
export async function testModelScheduler(
  t: TestContext,
  definition: ModelSchedulerDefinition,
  { options = {}, maxHoldMs = () => 0, runs = 10 }: TestModelSchedulerOptions = {},
): Promise<void> {
  const make = () => {
    const catalog = new Catalog<ModelScheduler>('model scheduler', 'decide')
    catalog.add(definition)
    return catalog.create(definition.name, options)
  }

  await t.test(`model scheduler ${definition?.name}`, async (t) => {
    await checkDefined(t, 'model scheduler', definition, make)

    await check(t, 'serves every request within its bound, in the room that there is', async () => {
      for (let seed = 1; seed <= runs; seed++) await serve(make(), seed, maxHoldMs)
    })

    await check(t, 'gives the same answers to the same questions', async () => {
      for (const seed of [1, 2]) {
        const asked = await serve(make(), seed, maxHoldMs)
        const other = make()
        // In another order, since it must not keep anything.
        for (const { models, now, decision } of asked.toReversed()) {
          assert.deepEqual(other.decide(models, now), decision)
        }
      }
    })
  })
}

interface Asked {
  readonly models: readonly ModelView[]
  readonly now: number
  readonly decision: ModelDecision
}

/** Serves a random load; what was asked and answered. */
async function serve(
  scheduler: ModelScheduler,
  seed: number,
  maxHoldMs: (swapMs: number, priority: number) => number,
): Promise<Asked[]> {
  const draw = new Draw(seed)
  const clock = new SimulatedClock(1000)
  const asked: Asked[] = []
  let failure: unknown
  const decide = (models: readonly ModelView[], now: number): ModelDecision => {
    const frozen = models.map((model) => {
      const waiting = model.waiting.map(({ since, priority, deadline }) =>
        Object.freeze({ since, priority, deadline }),
      )
      return Object.freeze({ ...model, waiting: Object.freeze(waiting) })
    })
    try {
      const decision = scheduler.decide(Object.freeze(frozen), now)
      checkModelDecision(decision, models)
      asked.push({ models: frozen, now, decision })
      return decision
    } catch (error) {
      failure ??= error
      throw error
    }
  }
  const room = 1 + draw.below(3)
  const names = Array.from({ length: room + 1 + draw.below(3) }, (_, index) => `model-${index}`)
  const inMemory = new Set<string>()
  const users = new Map<string, number>()
  const sleep = async (ms: number) => await pause(clock, ms)
  const models = names.map((name) => {
    const ms = loadMs.least + draw.below(loadMs.most - loadMs.least)
    return {
      name,
      async load(): Promise<LoadedModel> {
        assert(
          inMemory.size < room,
          `${inMemory.size} models are in memory, expected ${room} at most`,
        )
        inMemory.add(name)
        await sleep(ms)
        const close = async (): Promise<void> => {
          assert.equal(users.get(name) ?? 0, 0, `${name} is unloaded while it is in use`)
          inMemory.delete(name)
        }
        return { client: plainClient(draw), close }
      },
    }
  })
  const policy = { name: 'tested', policy: { decide } }
  const pool = new ModelPool({ models, clock, options: { maxLoaded: room }, scheduler: policy })
  // Of a request: what it may be held for; and the longest use, unload and load for each model before it, of which a
  // swap may be under way and each other model may come first.
  const boundOf = (priority: number) =>
    maxHoldMs(2 * loadMs.most, priority) + (names.length + 1) * (useMs + loadMs.most)
  const waits: Promise<void>[] = []
  let served = 0
  const use = async (name: string, priority: number, ms: number): Promise<void> => {
    const since = clock.now()
    const until = new AbortController()
    const deadlineMs = draw.below(4) === 0 ? { deadlineMs: draw.below(10_000) } : {}
    const urgency = { priority, ...deadlineMs }
    await pool.open(name, { until: until.signal, urgency }).info()
    const waited = clock.now() - since
    served++
    if (waited > boundOf(priority)) {
      failure ??= new Error(
        `it waited ${waited} ms for ${name}, expected ${boundOf(priority)} at most`,
      )
    }
    users.set(name, (users.get(name) ?? 0) + 1)
    await sleep(ms)
    users.set(name, users.get(name)! - 1)
    until.abort()
  }
  const busy = 20 + draw.below(800)
  for (let index = 0; index < requests; index++) {
    // Some models are asked for more than others, and never unused.
    const name = names[draw.below(3) > 0 ? draw.below(room) : draw.below(names.length)]!
    waits.push(use(name, draw.below(3) - 1, 1 + draw.below(useMs)))
    await runUntilIdle(clock, clock.now() + draw.below(busy))
  }
  const bound = (requests + names.length) * (boundOf(-1) + useMs)
  await runUntilIdle(clock, clock.now() + bound)
  if (failure !== undefined) throw failure
  assert.equal(served, requests, 'requests that never had their model')
  await Promise.all(waits)
  await pool.close()
  return asked
}

/** The engine of a model, as far as a pool needs one. */
function plainClient(draw: Draw): EngineClient {
  const slots = [{ slot: 0, request: undefined, state: 'idle', tokens: draw.below(2000) }]
  const client = {
    info: async () => ({ model: {} }),
    getScheduler: async () => ({ policy: '', options: {}, available: [] }),
    statistics: async () => ({ slots, prefillMs: 1000, prefillTokens: 1000, requests: {} }),
  }
  return client as unknown as EngineClient
}
