import { LocalEngineClient } from '@cllm/host'
import {
  type LogitProcessor,
  PluginRegistry,
  type Sampler,
  type SamplingParams,
  type SequenceView,
  SimulatedClock,
  systemClock,
  systemRandom,
  type TokenId,
  type WaitingView,
  createEngine,
  pause,
} from '@cllm/core'
import {
  FakeBackend,
  type FakeBackendOptions,
  drive,
  firstComeFirstServed,
  runUntilIdle,
} from '@cllm/testing'
import t from 'tap'
import { z } from 'zod'
import {
  PartsBackend,
  WatchedBackend,
  collect,
  counting,
  empty,
  expectedTokens,
  greedy,
  loggerOf,
  isDone,
  policyOf,
  promptOf,
  rig,
  watching,
} from '../rig.js'

/** Computes one input in 50 ms. */
class SlowEmbeddings extends WatchedBackend {
  constructor(private readonly given: FakeBackendOptions) {
    super({ ...given, embeddingSize: 1 })
  }

  override async embed(inputs: readonly (readonly TokenId[])[]): Promise<number[][]> {
    const { clock } = this.given
    await new Promise<void>((resolve) => void clock?.at(clock.now() + 50, resolve))
    return inputs.map(({ length }) => [length])
  }
}

t.test('one listener call per step, while the next step runs but for first tokens', async (t) => {
  const made = rig({ slots: 3 })
  const { client, batches, backend, run } = made
  const prompts = [5, 6, 7].map((length) => promptOf(length, length))
  const answers = await run(
    Promise.all(prompts.map((prompt) => collect(client.submit(greedy(prompt, 4))))),
  )
  for (const [index, prompt] of prompts.entries()) {
    t.same(answers[index]?.tokens, expectedTokens(backend, prompt, 4))
  }
  t.equal(backend.steps.length, 4, 'prompts and first tokens, then three more')
  const told = batches.filter(({ events }) => events.some(({ event }) => event.type !== 'start'))
  t.same(
    told.map(({ at, steps, stepping, events }) => [at, steps, stepping, events.length]),
    [
      [1010, 1, false, 3],
      [1020, 3, true, 3],
      [1030, 4, true, 3],
      [1040, 4, false, 6],
    ],
    'first tokens before the next step, later ones while it runs; the last three and the ends without another step',
  )
  t.equal(batches.length - told.length, 3, 'and a start for each request')
  t.match(answers[0]?.end?.timings, {
    queueMs: 0,
    prefillMs: 10,
    firstTokenMs: 10,
    decodeMs: 30,
    totalMs: 40,
  })
  t.match(answers[0]?.events[0], { type: 'start', promptTokens: 5 })
  await isDone(t, made)
})

t.test('an idle engine sleeps: no timers, no plans, no steps', async (t) => {
  const { seen, policy } = watching()
  const made = rig({ policy })
  await runUntilIdle(made.clock)
  t.equal(seen.length, 0)
  await made.ask(greedy([5], 2))
  const plans = seen.length
  t.equal(plans, 2, 'one plan a step')
  made.clock.advance(100_000)
  await runUntilIdle(made.clock)
  t.equal(seen.length, plans)
  t.equal(made.clock.nextTimer(), undefined)
  t.equal(made.engine.statistics().busyMs, 20)

  await made.ask({ ...greedy([5], 2), timeoutMs: 1e9 })
  t.equal(made.clock.nextTimer(), undefined, 'a limit that was not needed leaves no timer')
})

t.test('drain and close', async (t) => {
  t.test('drain', async (t) => {
    const made = rig({ slots: 1 })
    const { client, engine, run, batches, clock } = made
    await run(engine.drain())
    t.match((await made.ask(greedy([5], 1))).error, { code: 'shutting_down', status: 503 })

    const busy = rig({ slots: 1 })
    const answers = [0, 1].map((n) => collect(busy.client.submit(greedy([5 + n], 3))))
    let drained = 0
    const draining = busy.engine.drain().then(() => (drained = busy.batches.length))
    t.match((await collect(busy.client.submit(greedy([5], 1)))).error, { code: 'shutting_down' })
    await busy.run(draining)
    const ends = busy.batches
      .slice(0, drained)
      .filter(({ events }) => events.some(({ event }) => event.type === 'end'))
    t.equal(ends.length, 2, 'every end was said before')
    for (const answer of answers) t.equal((await answer).tokens.length, 3)
    const left = rig()
    const cancelled = collect(left.client.submit({ ...greedy([5], 99), id: 'left' }))
    await runUntilIdle(left.clock, 1015)
    const afterwards = left.engine.drain().then(() => left.batches.at(-1)?.events)
    left.client.cancel('left')
    t.match(await left.run(afterwards), [{ event: { type: 'error' } }], 'and every error')
    t.match((await cancelled).error, { code: 'cancelled' })

    await run(engine.drain())
    t.equal(batches.length, 1)
    t.equal(clock.nextTimer(), undefined)
    await client.close()
  })

  t.test('drain waits for embeddings, and for those that follow them', async (t) => {
    const made = rig({ backend: (given) => new SlowEmbeddings(given) })
    const { client, engine, run } = made
    const embed = async (length: number) =>
      (await client.embed({ tokens: promptOf(length) })).vector
    const first = Promise.all([1, 2].map(embed)).then(
      async () => await Promise.all([3, 4].map(embed)),
    )
    let isOver = false
    void first.then(() => (isOver = true))
    await run(engine.drain())
    t.equal(isOver, true)
    t.same(await first, [[3], [4]])
    await run(engine.drain())
    await run(client.close())
  })

  t.test('drain ends with a close, though a prompt is tokenized', async (t) => {
    const made = rig({ contextSize: 20_000, backend: (given) => new PartsBackend(given) })
    const { client, engine, run } = made
    const answer = collect(client.submit({ prompt: { text: 'x'.repeat(9000) } }))
    const draining = engine.drain()
    await run(client.close())
    await run(draining)
    t.match((await run(answer)).error, { code: 'shutting_down' })
    await run(engine.drain())
  })

  t.test('close under load', async (t) => {
    const made = rig({ slots: 2 })
    const { client, clock, run, engine, backend } = made
    const answers = [0, 1, 2, 3].map((n) =>
      collect(client.submit({ ...greedy(promptOf(9, n), 50), timeoutMs: 1e6 })),
    )
    await runUntilIdle(clock, 1025)
    const draining = engine.drain()
    const closing = Promise.all([client.close(), client.close()])
    const late = collect(client.submit(greedy([5], 5)))
    t.equal(backend.stepping, true)
    await run(closing)
    t.equal(clock.now(), 1030, 'the step under way is awaited, no other one starts')
    await draining
    for (const [n, { error, tokens }] of (await Promise.all(answers)).entries()) {
      t.match(error, { code: 'shutting_down', status: 503 })
      t.equal(tokens.length, n < 2 ? 2 : 0)
    }
    t.match((await late).error, { code: 'shutting_down' })
    t.match((await collect(client.submit(greedy([5], 5)))).error, { code: 'shutting_down' })
    await client.close()
    t.match(engine.statistics().requests, { done: 0, failed: 6 })
    t.equal(clock.nextTimer(), undefined)
    await isDone(t, made)
    await t.rejects(backend.step([]), { message: /disposed/ }, 'the backend is given back')
  })

  t.test('close while a prefix is copied', async (t) => {
    const made = rig({ slots: 2, copyMs: () => 50 })
    const { client, clock, run, backend } = made
    const first = collect(client.submit(greedy(promptOf(100), 50)))
    await runUntilIdle(clock, 1035)
    const second = collect(client.submit(greedy(promptOf(100), 50)))
    await runUntilIdle(clock, 1055)
    t.equal(backend.operations.at(-1)?.type, 'copyPrefix')
    const steps = backend.steps.length
    await run(client.close())
    t.equal(backend.steps.length, steps)
    for (const answer of [first, second]) t.match((await answer).error, { code: 'shutting_down' })
    await isDone(t, made)
  })
})

t.test('samplers that cannot be disposed of keep no request from its end', async (t) => {
  const { errors, logger } = loggerOf()
  const { ask, backend } = rig({ logger })
  const create = backend.createSampler.bind(backend)
  backend.createSampler = (...of) => {
    const dispose = () => {
      throw new Error('in use')
    }
    return Object.assign(create(...of), { dispose })
  }
  for (const count of [1, 5]) t.equal((await ask(greedy([5, count], count))).tokens.length, count)
  t.match(errors, [{ message: /a sampler could not/ }, {}])
})

t.test('a step costs what runs, whatever waits', async (t) => {
  const count = 10_000
  const clock = new SimulatedClock()
  const backend = new FakeBackend({ clock, stepMs: () => 10, slots: 2, contextSize: 64 })
  const views: SequenceView[] = []
  let visits = 0
  /** The policy's view is the engine's own queue: it counts the engine's iterations too. */
  const countVisits = (waiting: WaitingView): void => {
    const iterate = waiting[Symbol.iterator].bind(waiting)
    Object.defineProperty(waiting, Symbol.iterator, {
      *value() {
        for (const view of { [Symbol.iterator]: iterate }) {
          visits++
          yield view
        }
      },
    })
  }
  const policy = policyOf((state) => {
    if (state.freeSlots > 0) return firstComeFirstServed.plan(state)
    if (views.length === 0) {
      views.push(...state.waiting)
      countVisits(state.waiting)
    }
    return { ...empty, run: state.running.map(({ id }) => ({ id, tokens: 1 })) }
  })
  const options = { maxQueuedRequests: count * 2 }
  const engine = createEngine({ backend, policy, clock, random: counting(), options })
  for (let n = 0; n < count; n++) {
    engine.submit(`r${n}`, { ...greedy([5 + (n % 200)], 60), timeoutMs: 1e9 })
  }
  await runUntilIdle(clock, 50)
  t.equal(views.length, count - 2)
  let accesses = 0
  for (const view of views) {
    for (const [name, value] of Object.entries(view)) {
      let current: unknown = value
      Object.defineProperty(view, name, {
        get() {
          accesses++
          return current
        },
        set(next: unknown) {
          current = next
        },
      })
    }
  }
  const steps = backend.steps.length
  await runUntilIdle(clock, 250)
  t.equal(backend.steps.length - steps, 20)
  t.equal(accesses, 0, 'no waiting request was read')
  t.equal(visits, 0, 'and none was iterated over')

  t.equal(views[0]?.state, 'queued')
  t.equal(accesses, 1, 'a read is counted')
  engine.explain('r9')
  t.ok(visits > 0, 'and so is an iteration by the engine')
  await runUntilIdle(clock, 255)
  const closing = engine.close()
  await runUntilIdle(clock)
  await closing
})

t.test('statistics', async (t) => {
  const made = rig({ slots: 2 })
  const { client, clock, run, engine } = made
  t.match(engine.statistics(), {
    waiting: 0,
    running: 0,
    waitMs: 0,
    slots: [0, 1].map((slot) => ({ slot, request: undefined, state: 'idle', tokens: 0 })),
    policyFaults: 0,
    requests: { done: 0, cancelled: 0, failed: 0, timed_out: 0 },
    promptTokens: 0,
    cachedTokens: 0,
    generatedTokens: 0,
    preemptions: 0,
    steps: 0,
    interruptedSteps: 0,
    decodeMs: 0,
    sampleMs: 0,
    busyMs: 0,
    prefillTokens: 0,
    decodeTokens: 0,
    stepMs: { sum: 0 },
  })
  const answers = ['a', 'b', 'c'].map((id, n) =>
    collect(client.submit({ ...greedy(promptOf(30, n), 5), id })),
  )
  await runUntilIdle(clock, 1015)
  t.match(engine.statistics(), {
    waiting: 1,
    running: 2,
    slots: [
      { slot: 0, request: 'a', state: 'decoding', tokens: 30 },
      { slot: 1, request: 'b', state: 'decoding', tokens: 30 },
    ],
    requests: { done: 0 },
    steps: 1,
    decodeMs: 10,
    busyMs: 10,
  })
  t.ok(engine.statistics().waitMs! > 0, 'no slot is free')
  await run(Promise.all(answers))
  const again = await run(collect(client.submit(greedy(promptOf(30, 1), 5))))
  t.equal(again.end?.usage.cachedTokens, 29)
  t.match(engine.statistics(), {
    requests: { done: 4 },
    promptTokens: 120,
    cachedTokens: 29,
    generatedTokens: 20,
    steps: 15,
    decodeMs: 150,
    busyMs: 150,
    sampleMs: 0,
    prefillTokens: 120 - 29,
    decodeTokens: 16,
    stepMs: { sum: 150 },
    stepTokens: { sum: 120 - 29 + 16 },
  })
  const { steps, stepMs, stepTokens, stepSequences } = engine.statistics()
  for (const { bounds, counts } of [stepMs, stepTokens, stepSequences]) {
    t.equal(counts.length, bounds.length + 1)
    t.equal(
      counts.reduce((sum, count) => sum + count, 0),
      steps,
      'every step is counted once',
    )
  }
  t.equal(stepMs.counts[stepMs.bounds.indexOf(10)], 15, 'at most 10 ms and above 5')
  t.match(engine.info(), { model: { id: 'fake' }, limits: { slots: 2 }, capabilities: {} })
  await isDone(t, made)
})

t.test('a backend that embeds one of several inputs is asked for each alone', async (t) => {
  class First extends WatchedBackend {
    override readonly limits = { ...new WatchedBackend().limits, embeddingInputs: 4 }

    override async embed(inputs: readonly (readonly TokenId[])[]) {
      return await super.embed(inputs.slice(0, 1))
    }
  }
  const { client, run } = rig({ embeddingSize: 4, backend: (given) => new First(given) })
  const inputs = [1, 2, 3].map((family) => ({ tokens: promptOf(3, family) }))
  const all = await run(Promise.all(inputs.map((input) => client.embed(input))))
  const alone = [await run(client.embed(inputs[1]!)), await run(client.embed(inputs[2]!))]
  t.same(
    all.slice(1).map(({ vector }) => vector),
    alone.map(({ vector }) => vector),
  )
  const none = rig({
    embeddingSize: 4,
    backend: (given) => Object.assign(new WatchedBackend(given), { embed: async () => [[]] }),
  })
  await t.rejects(none.run(none.client.embed({ tokens: [5] })), {
    code: 'backend_failed',
    message: /expected a vector of numbers for each/,
  })
})

t.test('a backend without embeddings says so', async (t) => {
  const { client } = rig()
  await t.rejects(client.embed({ text: 'x' }), {
    code: 'unsupported',
    status: 400,
    details: { capability: 'embeddings' },
  })
})

t.test('one embedding between two steps, all at once in idle time', async (t) => {
  const order: string[] = []
  class Embedding extends WatchedBackend {
    override async step(batch: Parameters<WatchedBackend['step']>[0]) {
      order.push('step')
      return await super.step(batch)
    }

    override async embed(inputs: readonly (readonly TokenId[])[]): Promise<number[][]> {
      if (this.stepping) throw new Error('during a step')
      order.push('embed')
      await pause(made.clock, 50)
      if (inputs.some((tokens) => tokens.length === 3)) throw new RangeError('three')
      return inputs.map((tokens) => [tokens.length])
    }
  }
  const made = rig({ embeddingSize: 1, backend: (given) => new Embedding(given) })
  const { client, run } = made
  const inputs = [1, 2, 4, 5].map((length) => client.embed({ tokens: promptOf(length) }))
  const vectors = (await run(Promise.all(inputs))).map(({ vector }) => vector)
  t.same(vectors, [[1], [2], [4], [5]])
  t.same(order.splice(0), ['embed', 'embed', 'embed', 'embed'])

  const generating = collect(client.submit(greedy(promptOf(9), 4)))
  const during = [1, 2, 4].map((length) => client.embed({ tokens: promptOf(length) }))
  const failing = client.embed({ tokens: promptOf(3) }).catch((error: unknown) => error)
  const [{ tokens }, ...rest] = await run(Promise.all([generating, ...during]))
  t.equal(tokens.length, 4)
  t.same(
    rest.map(({ promptTokens }) => promptTokens),
    [1, 2, 4],
  )
  t.notMatch(order.join(' '), /embed embed.*step/, 'generation never waits for two')
  t.match(await run(failing), { code: 'backend_failed', message: 'three' })

  const last = client.embed({ tokens: promptOf(1) })
  const refused = client.embed({ tokens: promptOf(2) }).catch((error: unknown) => error)
  await run(client.close())
  t.same((await last).vector, [1], 'what is computed is waited for')
  t.match(await refused, { code: 'shutting_down' })
})

t.test('a pass has as many inputs as the backend takes', async (t) => {
  const passes: number[][] = []
  class Wide extends WatchedBackend {
    override readonly limits = {
      ...new WatchedBackend().limits,
      embeddingTokens: 12,
      embeddingInputs: 3,
    }

    override async embed(inputs: readonly (readonly TokenId[])[]): Promise<number[][]> {
      passes.push(inputs.map(({ length }) => length))
      await pause(made.clock, 50)
      if (inputs.some(({ length }) => length === 7)) throw new RangeError('seven')
      return inputs.map(({ length }) => [length])
    }
  }
  const made = rig({ embeddingSize: 1, backend: (given) => new Wide(given) })
  const { client, run } = made
  const embed = (length: number) =>
    client.embed({ tokens: promptOf(length) }).then(
      ({ vector }) => vector[0],
      (error: Error) => error.message,
    )
  const lengths = [2, 1, 4, 4, 5, 7, 1, 12, 1]
  t.same(await run(Promise.all(lengths.map(embed))), [2, 1, 4, 4, 5, 'seven', 1, 12, 1])
  const alone = [[5], [7]]
  t.same(passes, [[2], [1, 4, 4], [5, 7], ...alone, [1], [12], [1]], 'the first does not wait')
})

/** Remembers the processors that its samplers are made with. */
class SamplingBackend extends FakeBackend {
  override readonly capabilities = { ...new FakeBackend().capabilities, samplers: true }
  readonly made: (readonly LogitProcessor[] | undefined)[] = []

  override createSampler(
    params: SamplingParams,
    tokens: readonly TokenId[],
    _promptTokens?: number,
    processors?: readonly LogitProcessor[],
  ): Sampler {
    this.made.push(processors)
    return super.createSampler(params, tokens)
  }
}

t.test('the samplers of a request reach the backend', async (t) => {
  const registry = new PluginRegistry()
  registry.registerSampler({
    name: 'shift',
    doc: 'Adds to all.',
    options: z.object({ by: z.number().default(1) }),
    create: (options, { seed }) => ({
      apply: (logits) =>
        logits.forEach((logit, token) => {
          logits[token] = logit + (options as { by: number }).by + seed
        }),
    }),
  })
  const clock = new SimulatedClock()
  const backend = new SamplingBackend()
  const engine = createEngine({ backend, policy: firstComeFirstServed, clock, registry })
  const client = new LocalEngineClient(engine, registry, counting())
  const ask = async (sampling: Partial<SamplingParams>) => {
    const request = greedy(promptOf(5, 5), 2)
    const changed = { ...request, sampling: { ...request.sampling, ...sampling } }
    return await drive(clock, collect(client.submit(changed)))
  }
  const samplers = [{ name: 'shift', options: { by: 5 } }, { name: 'shift' }]
  await ask({ samplers, seed: 100 })
  await ask({})
  const [first, second] = backend.made
  t.equal(second?.length, 0)
  const logits = new Float32Array(2)
  for (const processor of first ?? []) processor.apply(logits, { position: 0, tokens: [1] })
  t.same(logits, Float32Array.of(206, 206), 'each with its options and the seed')
  t.match((await ask({ samplers: [{ name: 'shft' }] })).error, {
    code: 'invalid_request',
    details: { field: 'samplers.0.name' },
  })
  t.equal(backend.made.length, 2)
})

t.test('a program does not end while a request waits for a time of its policy', async (t) => {
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
  let isPlanned = (): void => {}
  const planned = new Promise<void>((resolve) => (isPlanned = resolve))
  const policy = policyOf((state) => {
    if (state.waiting.size > 0) isPlanned()
    return { ...empty, wakeAt: state.now + 60_000 }
  })
  const backend = new FakeBackend({ id: 'tiny', clock: systemClock })
  const engine = createEngine({ backend, policy, clock: systemClock })
  const client = new LocalEngineClient(engine, new PluginRegistry(), counting())
  const before = timers()
  const leaving = new AbortController()
  const answer = collect(client.submit(greedy(promptOf(5, 5), 2), { signal: leaving.signal }))
  await planned
  await new Promise(setImmediate)
  t.equal(timers(), before + 1)
  leaving.abort()
  t.match((await answer).error, { code: 'cancelled' })
  await new Promise(setImmediate)
  t.equal(timers(), before, 'an idle engine keeps no program alive')
})

t.test('numbers by chance are drawn many at a time', (t) => {
  const asked = t.capture(crypto, 'getRandomValues', crypto.getRandomValues.bind(crypto))
  const numbers = Array.from({ length: 10_000 }, () => systemRandom.uint32())
  t.ok(asked().length <= 10, 'each question takes microseconds, and an id has four numbers')
  t.ok(new Set(numbers).size > 9_990)
  t.end()
})
