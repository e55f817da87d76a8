import {
  definePolicy,
  type GenerateRequest,
  PluginRegistry,
  SimulatedClock,
  systemClock,
  type TokenId,
} from '@cllm/core'
import { type FromEngine, SupervisedEngineClient, type SupervisorOptions } from '@cllm/host'
import { drive, runUntilIdle, firstComeFirstServed, until } from '@cllm/testing'
import * as fc from 'fast-check'
import t from 'tap'
import { z } from 'zod'
import { channels, FakeProcess, type FakeProcessOptions } from '../fake-process.js'
import { type Answer, collect, counting, greedy, promptOf } from '../../../core/test/rig.js'

interface Setting extends Omit<FakeProcessOptions, 'clock'> {
  readonly supervisor?: Partial<SupervisorOptions>
  /** Starts that fail, by number. */
  readonly failing?: (start: number) => boolean
}

function supervised(setting: Setting = {}) {
  const clock = new SimulatedClock(1000)
  const processes: FakeProcess[] = []
  const starts: number[] = []
  const start = () => {
    starts.push(clock.now())
    if (setting.failing?.(starts.length) === true) {
      const { here, there } = channels()
      const error = { code: 'model_invalid', message: 'that is a picture' }
      there.send({ type: 'failed', error } as FromEngine)
      clock.at(clock.now() + 1, () => here.break('its process ended with code 0'))
      return { channel: here, kill: () => here.break('killed') }
    }
    const process = new FakeProcess({ ...setting, clock })
    processes.push(process)
    return process
  }
  const { supervisor: options = {} } = setting
  const client = new SupervisedEngineClient({ start, clock, random: counting(), options })
  const run = async <T>(promise: Promise<T>): Promise<T> => await drive(clock, promise)
  const submit = (request: GenerateRequest) => collect(client.submit(request))
  const kill = (reason?: string) => processes.at(-1)?.kill(reason)
  return { clock, client, processes, starts, run, submit, kill }
}

/** What must not change however often the engine dies: all but times and what was cached. */
const lasting = ({ events, error, text }: Answer) => ({
  text,
  error: error?.code,
  events: events.map((event) => {
    if (event.type !== 'end') return event
    const { timings: _, usage, ...rest } = event
    const { cachedTokens: __, ...tokens } = usage
    return { ...rest, tokens }
  }),
})

const request = fc.record({
  prompt: fc.oneof(
    fc.record({ text: fc.constantFrom('Once upon a time', 'x', '€ 😀', 'the cat ') }),
    fc.record({ tokens: fc.array(fc.integer({ min: 4, max: 299 }), { minLength: 1 }) }),
    fc.constant({ messages: [{ role: 'user', content: 'hello' }] }),
  ),
  maxTokens: fc.integer({ min: 1, max: 40 }),
  stop: fc.constantFrom([], [' the', 'a'], ['e', ' t', 'in']),
  sampling: fc.record({
    temperature: fc.constantFrom(0, 0.7, 3),
    seed: fc.option(fc.nat(1000), { nil: undefined }),
    repetitionPenalty: fc.constantFrom(1, 1.3),
    presencePenalty: fc.constantFrom(0, 0.5),
  }),
})

const arrivals = fc.array(fc.tuple(fc.integer({ min: 0, max: 200 }), request), {
  minLength: 1,
  maxLength: 12,
})

/** In every other text the same five tokens come again and again. */
const repeating = (content: readonly TokenId[]) =>
  content.length > 3 && (content[1] ?? 0) % 2 === 0 ? 20 + (content.length % 5) : undefined

t.test('whenever the engine dies, every answer stays the same', async (t) => {
  let runs = 0
  let restarts = 0
  let accepted = 0
  let broken = 0
  let allBlamed = 0
  const all = async (
    given: [number, Omit<GenerateRequest, 'sampling'>][],
    deaths: number[],
    made: ReturnType<typeof supervised>,
  ) => {
    const { clock, submit, kill, client } = made
    let at = 1010
    for (const wait of deaths) clock.at((at += wait), () => kill())
    const answers = given.map(
      ([wait, one], index) =>
        new Promise<Answer>((resolve) => {
          const go = () => resolve(submit({ ...one, id: `r${index}` }))
          clock.at(1000 + wait, go)
        }),
    )
    const heard = await drive(clock, Promise.all(answers))
    restarts += client.restarts
    for (const { end } of heard) accepted += end?.timings.acceptedTokens ?? 0
    return heard.map(lasting)
  }
  await fc.assert(
    fc.asyncProperty(
      arrivals,
      fc.array(fc.integer({ min: 0, max: 150 }), { minLength: 1, maxLength: 5 }),
      async (given, deaths) => {
        runs++
        const setting = { endProbability: 0.02, slots: 3, loadMs: 7, script: repeating }
        const drafting = { ...setting, engine: { speculative: 'ngram' } }
        const plain = given as [number, GenerateRequest][]
        const expected = await all(plain, [], supervised(setting))
        const actual = await all(plain, deaths, supervised(drafting))
        // A second engine that is killed before the first token of a request that it has alone.
        const blamed = actual.map(({ error }) => error === 'engine_crashed')
        const unblamed = <T>(list: readonly T[]) => list.filter((_, index) => !blamed[index])
        t.same(unblamed(actual), unblamed(expected))
        const blames = blamed.filter(Boolean).length
        t.ok(blames < Math.max(1, deaths.length), `${blames} blamed after ${deaths.length} deaths`)
        allBlamed += blames
        broken += expected.filter(({ text }) => /[€😀é]/u.test(text)).length
      },
    ),
    { numRuns: 120 },
  )
  t.ok(allBlamed < runs / 10, `${allBlamed} requests were blamed for a kill`)
  t.ok(restarts > (5 / 6) * runs, `${restarts} restarts`)
  t.ok(accepted > 4 * runs, `${accepted} drafts accepted`)
  t.ok(broken > runs / 6, `${broken} texts with characters of several tokens`)
})

t.test('a request that came with its first tokens keeps their time', async (t) => {
  const { clock, run, submit, kill, client } = supervised()
  await run(client.ready())
  const continued = { tokens: [7], elapsedMs: 500, firstTokenMs: 40 }
  const answer = submit({ ...greedy([5], 9), continued })
  await runUntilIdle(clock, clock.now() + 30)
  kill()
  const { end } = await run(answer)
  t.equal(client.restarts, 1)
  t.equal(end?.timings.firstTokenMs, 40)
})

const poison = 299

t.test('only the request that kills the engine fails', async (t) => {
  const crash = (process: FakeProcess) => process.kill('its process ended with SIGSEGV')
  const poisoned =
    (die: (process: FakeProcess) => void): NonNullable<Setting['onStep']> =>
    async (process, batch) => {
      if (!batch.some(({ tokens }) => tokens.includes(poison))) return
      die(process)
      await new Promise(() => {})
    }
  const answersOf = async (setting: Setting, prompts: readonly (readonly number[])[]) => {
    const made = supervised({ ...setting, slots: 4 })
    const answers = await made.run(
      Promise.all(
        prompts.map((prompt) => made.submit({ ...greedy(prompt, 20), id: String(prompt) })),
      ),
    )
    return { ...made, answers }
  }
  const good = Array.from({ length: 9 }, (_, n) => promptOf(9, n))
  const mixed = [
    ...good.slice(0, 2),
    [5, poison, 6],
    ...good.slice(2, 6),
    [poison],
    ...good.slice(6),
  ]
  const expected = await answersOf({}, good)
  const deaths = {
    'with its last words': (process: FakeProcess) => queueMicrotask(() => crash(process)),
    'without them': crash,
  }
  for (const [how, die] of Object.entries(deaths)) {
    const { answers, client, processes } = await answersOf({ onStep: poisoned(die) }, mixed)
    const failed = answers.filter(({ error }) => error !== undefined)
    t.equal(failed.length, 2, how)
    for (const { error, tokens } of failed) {
      t.match(error, { code: 'engine_crashed', status: 500, message: /SIGSEGV/ })
      t.same(tokens, [])
    }
    t.same(
      answers.filter(({ error }) => error === undefined).map(lasting),
      expected.answers.map(lasting),
    )
    t.ok(client.restarts <= 4, `${client.restarts} restarts: two for each`)
    t.same(processes.at(-1)?.backend.samplers.size, 0)
  }
})

t.test('an engine that stops computing steps is killed; an idle one is not', async (t) => {
  let steps = 0
  const onStep = async () => {
    if (++steps === 5) await new Promise(() => {})
  }
  const { clock, run, submit, starts, client } = supervised({
    onStep,
    supervisor: { hangTimeoutMs: 1000 },
  })
  const { tokens } = await run(submit(greedy(promptOf(9), 10)))
  t.equal(tokens.length, 10)
  t.equal(client.restarts, 1)
  t.equal(starts[1], 1000 + 40 + 1000, 'a second after its last step')

  await runUntilIdle(clock, clock.now() + 60_000)
  t.equal(client.restarts, 1, 'no work, no step')
  const late = submit(greedy(promptOf(9), 10))
  await runUntilIdle(clock, clock.now() + 500)
  t.equal((await late).tokens.length, 10, 'work after a long rest')
  t.equal(client.restarts, 1)

  const long = supervised({ stepMs: () => 900, supervisor: { hangTimeoutMs: 1000 }, batchSize: 16 })
  const answer = await long.run(long.submit(greedy(promptOf(100), 3)))
  t.equal(answer.tokens.length, 3, 'a long prompt has steps without events')
  t.equal(long.client.restarts, 0)
})

t.test('a step that hangs is noticed while requests keep coming', async (t) => {
  const { clock, client, submit, run, processes } = supervised({
    onStep: async (process) => {
      if (process === processes[0]) await new Promise(() => {})
    },
    engine: { maxQueuedRequests: 4 },
  })
  await run(client.ready())
  const answers = Array.from({ length: 20 }, async (_, index) => {
    await new Promise<void>((resolve) => clock.at(1000 + index * 10_000, resolve))
    return await submit(greedy(promptOf(9, index), 3))
  })
  await runUntilIdle(clock, 120_999)
  t.equal(client.restarts, 0)
  await runUntilIdle(clock, 121_000)
  t.equal(client.restarts, 1, 'neither a request taken in nor one refused is a step')
  const codes = (await run(Promise.all(answers))).map(({ error }) => error?.code)
  t.ok(codes.includes('queue_full'))
  t.equal(codes[0], undefined, 'the first one is computed by the next engine')
})

t.test('a call without an answer is a hang too', async (t) => {
  const { run, processes, client, clock } = supervised({ supervisor: { hangTimeoutMs: 1000 } })
  await run(client.ready())
  const [process] = processes
  if (process !== undefined) process.channel.send = () => {}
  const tokens = await run(client.tokenize('abc'))
  t.equal(tokens.length, 4, 'the next one answers')
  t.equal(client.restarts, 1)
  t.equal(clock.now(), 2000)
})

t.test(
  'a slot is saved as slowly as its request and its file are, and that is no hang',
  async (t) => {
    const slow = { stepMs: () => 15_000, slots: 1 }
    const { client, run, submit, processes, clock } = supervised(slow)
    await run(client.ready())
    const busy = submit(greedy(promptOf(9), 20))
    await runUntilIdle(clock, clock.now() + 1000)
    const erased = client.slotAction(0, { action: 'erase' })
    t.equal((await run(busy)).tokens.length, 20)
    t.match(await run(erased), { slot: 0, bytes: 0 })
    const [process] = processes
    if (process !== undefined) process.channel.send = () => {}
    const save = { action: 'save', filename: 'a.bin' } as const
    const refused = t.rejects(client.slotAction(0, save), { code: 'engine_unavailable' })
    await runUntilIdle(clock, clock.now() + 600_000)
    t.equal(client.restarts, 0)
    t.equal((await run(client.tokenize('abc'))).length, 4, 'an answer that is owed is missed')
    t.equal(client.restarts, 1)
    await refused
  },
)

t.test('a hang outside a forward pass costs seconds, not minutes', async (t) => {
  const kinds: [string, Partial<Setting>, GenerateRequest][] = [
    [
      'in createSampler',
      { onSampler: (process, tokens) => void (tokens.includes(poison) && process.hang()) },
      greedy([5, poison], 5),
    ],
    [
      'in the tokenizer',
      { onEncode: (process, text) => void (text === 'poison' && process.hang()) },
      { ...greedy([], 5), prompt: { text: 'poison' } },
    ],
  ]
  for (const [where, setting, request] of kinds) {
    const { clock, client, run, submit, processes } = supervised(setting)
    const others = [0, 1].map((n) => submit(greedy(promptOf(9, n), 60)))
    await runUntilIdle(clock, 1100)
    const { error, tokens } = await run(submit({ ...request, id: 'hostile' }))
    t.match(
      error,
      {
        code: 'engine_crashed',
        status: 500,
        message: /alone: .* for 10 s under the policy "[\w-]+"/,
      },
      where,
    )
    t.same(tokens, [])
    t.equal(processes.length, 2, 'engines it was tried on')
    t.ok(clock.now() < 1100 + 21_000, `after ${clock.now() - 1100} ms`)
    for (const { tokens, error: none } of await run(Promise.all(others))) {
      t.same([tokens.length, none], [60, undefined], 'the others go on')
    }
    t.equal(client.restarts, 2)
  }

  const prepareTimeoutMs = 3000
  const { clock, client, run, processes } = supervised({ supervisor: { prepareTimeoutMs } })
  await run(client.ready())
  processes[0]?.hang()
  t.equal((await run(client.tokenize('abc'))).length, 4, 'a call is answered by the next engine')
  t.equal(clock.now(), 4000, 'the time can be set')
})

t.test('a call that its client left is handed to no further engine', async (t) => {
  const encoded: [number, string][] = []
  const { clock, client, run, submit, processes } = supervised({
    onEncode: (process, text) => {
      // each engine encodes a text when it starts
      if (text !== 'poison') return
      encoded.push([processes.indexOf(process), text])
      process.hang()
    },
  })
  await run(client.ready())
  const left = new AbortController()
  const abandoned = t.rejects(client.tokenize('poison', { signal: left.signal }), {
    code: 'cancelled',
  })
  left.abort()
  await abandoned
  const canary = submit(greedy(promptOf(9), 3))
  const { tokens, error } = await run(canary)
  t.same([tokens.length, error], [3, undefined])
  t.same(encoded, [[0, 'poison']])
  t.equal(client.restarts, 1)
  t.ok(clock.now() < 12_000, `after ${clock.now()} ms`)
})

t.test('a call that crashes engines fails alone, and no request beside it', async (t) => {
  const poisoned = (process: FakeProcess, text: string) =>
    void (text === 'poison' && process.kill())
  const { clock, client, run, submit } = supervised({ onEncode: poisoned, slots: 2 })
  await run(client.ready())
  const running = submit(greedy(promptOf(9), 60))
  await runUntilIdle(clock, clock.now() + 100)
  const fresh = submit({ ...greedy([], 5), prompt: { text: 'innocent' } })
  const calls = [client.tokenize('abc'), client.tokenize('poison'), client.tokenize('abc')]
  const failed = t.rejects(calls[1] as Promise<TokenId[]>, {
    code: 'engine_crashed',
    message: /this call alone: tokenize/,
  })
  t.equal((await run(calls[0] as Promise<TokenId[]>)).length, 4)
  await run(failed)
  t.equal((await run(calls[2] as Promise<TokenId[]>)).length, 4)
  for (const { tokens, error } of await run(Promise.all([running, fresh]))) {
    t.same([tokens.length > 4, error], [true, undefined])
  }
  t.equal(client.restarts, 2, 'beside others, and alone')
})

t.test(
  'while a request that may have crashed an engine is alone, no call is beside it',
  async (t) => {
    const { clock, client, run, submit } = supervised({
      onStep: (process, batch) => {
        if (batch.some(({ tokens }) => tokens.includes(poison))) process.kill()
      },
      onEncode: (process, text) => void (text === 'poison' && process.kill()),
    })
    await run(client.ready())
    const hostile = submit(greedy([5, poison], 5))
    const call = t.rejects(client.tokenize('poison'), { code: 'engine_crashed' })
    const innocent = submit(greedy(promptOf(9), 5))
    await runUntilIdle(clock, clock.now() + 20)
    t.match((await run(hostile)).error, { code: 'engine_crashed' })
    await run(call)
    t.same([(await run(innocent)).tokens.length, (await innocent).error], [5, undefined])
  },
)

t.test('what cannot be sent fails, and nothing else', async (t) => {
  const { clock, client, run, submit, kill, processes } = supervised({ loadMs: 50, slots: 1 })
  const circle: object[] = []
  circle.push(circle)
  const schema = { x: circle }
  const bad = (): GenerateRequest => ({
    ...greedy(promptOf(9), 5),
    sampling: { constraint: { type: 'json-schema', schema } },
  })
  const message = [{ role: 'user', content: 'a', tool_calls: circle }] as never
  const early = { bad: submit(bad()), good: submit(greedy(promptOf(9), 60)) }
  const earlyCall = t.rejects(client.applyTemplate(message), { code: 'internal' })
  await run(client.ready())
  t.match((await run(early.bad)).error, { code: 'internal', message: /circular structure/ })
  await run(earlyCall)
  t.match((await run(submit(bad()))).error, { code: 'internal', message: /circular structure/ })
  await run(t.rejects(client.applyTemplate(message), { code: 'internal' }))
  await client.tokenize('abc')
  await runUntilIdle(clock, clock.now() + 300_000)
  t.equal(client.restarts, 0, 'no answer is owed')
  t.equal((await early.good).tokens.length, 60)

  const other = submit(greedy(promptOf(9, 1), 20))
  kill()
  const between = { bad: submit(bad()), good: submit(greedy(promptOf(9, 2), 20)) }
  t.equal((await run(other)).tokens.length, 20)
  t.match((await run(between.bad)).error, { code: 'internal' })
  t.equal((await run(between.good)).tokens.length, 20, 'a restart sends the others')
  t.equal(processes.length, 2)
  await run(client.drain())
  await run(client.close())
})

t.test('an engine that tokenizes for minutes does not count as hanging', async (t) => {
  const tokenizing = async (count: number, partMs: number) => {
    const made = supervised({
      slots: 2,
      contextSize: 65_536,
      batchSize: 65_536,
      // The parent's time passes too while this process computes.
      onPart: () => made.clock.advance(partMs),
    })
    const { clock, client, run } = made
    await run(client.ready())
    const text = 'x'.repeat(30_000)
    const began = clock.now()
    const answers = Array.from({ length: count }, async () => {
      const stream = client.submit({ prompt: { text }, maxTokens: 1 })
      await stream.next()
      const startedMs = clock.now() - began
      return { startedMs, ...(await collect(stream)) }
    })
    const all = Promise.all(answers)
    let isOver = false
    all.then(
      () => (isOver = true),
      () => (isOver = true),
    )
    const totalMs = count * 30 * partMs
    await until(() => isOver || clock.now() - began >= totalMs)
    const ended = await run(all)
    t.ok(ended.every(({ end }) => end?.usage.generatedTokens === 1))
    t.equal(client.restarts, 0)
    return ended.map(({ startedMs }) => startedMs)
  }
  const [first = 0, ...others] = await tokenizing(100, 20)
  t.ok(first < 1000, `the first of many prompts is read after ${first} ms`)
  t.ok(others.at(-1)! >= 60_000, `the last after ${others.at(-1)} ms`)
  const [alone = 0] = await tokenizing(1, 1000)
  t.ok(alone >= 30_000, `a very long one after ${alone} ms`)
})

t.test('a step may take longer than the limit for work without a step', async (t) => {
  const { run, submit, client } = supervised({ stepMs: () => 60_000, batchSize: 4 })
  const first = submit(greedy(promptOf(9), 3))
  const [{ tokens }, words] = await run(Promise.all([first, client.tokenize('meanwhile')]))
  t.equal(tokens.length, 3)
  t.ok(words.length > 1)
  t.equal(client.restarts, 0)
})

t.test('a request whose client has left is not given to the next engine', async (t) => {
  const onStep: Setting['onStep'] = async (process, batch) => {
    const isPoisoned = batch.some(({ tokens }) => tokens.includes(poison))
    if (isPoisoned && process === processes[0]) await new Promise(() => {})
  }
  const embedded: (readonly number[])[] = []
  const { processes, clock, client, run, submit, kill } = supervised({ onStep, embeddingSize: 2 })
  await run(client.ready())
  processes[0]!.backend.embed = async () => await new Promise(() => {})
  const leaving = new AbortController()
  const embedding = client.embed({ tokens: [7, 8] }, { signal: leaving.signal })
  const lost = t.rejects(embedding, { code: 'cancelled' })
  const hostile = submit({ ...greedy([5, poison], 50), id: 'hostile' })
  const aborted = collect(
    client.submit({ ...greedy([6, 6, 6], 50), id: 'aborted' }, { signal: leaving.signal }),
  )
  const stays = submit({ ...greedy([7, 7, 7], 20), id: 'stays' })
  await runUntilIdle(clock, 1100)
  client.cancel('hostile', 'its client is gone')
  leaving.abort()
  await lost
  t.match((await aborted).error, { code: 'cancelled' })
  await runUntilIdle(clock, 1200)
  kill()
  t.match((await hostile).error, { code: 'cancelled', message: 'its client is gone' })
  await runUntilIdle(clock, 1200)
  processes[1]!.backend.embed = async (inputs) => {
    embedded.push(...inputs)
    return inputs.map(() => [1, 0])
  }
  t.equal((await run(stays)).tokens.length, 20)
  const { steps, samplers } = processes[1]!.backend
  const computed = steps.flatMap(({ batch }) => batch.flatMap(({ tokens }) => tokens))
  t.notOk(computed.includes(poison) || computed.includes(6), 'nothing of it is computed')
  t.same(embedded, [])
  t.equal(samplers.size, 0)
  await run(client.drain())
  t.match(await run(client.statistics()), {
    running: 0,
    waiting: 0,
    requests: { cancelled: 2, done: 1, failed: 0 },
  })
})

t.test('who waits keeps the place and the time limit', async (t) => {
  const { clock, submit, kill, run } = supervised({ slots: 1, loadMs: 100 })
  await runUntilIdle(clock, 1200)
  const ends: string[] = []
  const ask = async (name: string, request: Partial<GenerateRequest> = {}) => {
    const answer = await submit({ ...greedy(promptOf(5), 8), ...request })
    ends.push(answer.error?.code ?? name)
    return answer
  }
  const all = ['a', 'b', 'c'].map((name) => ask(name))
  const limited = ask('never', { timeoutMs: 150 })
  const short = ask('never', { timeoutMs: 60 })
  await runUntilIdle(clock, 1235)
  kill()
  const later = ask('d')
  t.match((await run(short)).error, { code: 'timeout', status: 408 })
  t.equal(clock.now(), 1260, 'though there is no engine')
  await run(Promise.all([...all, limited, later]))
  t.same(ends, ['timeout', 'timeout', 'a', 'b', 'c', 'd'])
  const { end } = await all[0]!
  t.match(end?.timings, { firstTokenMs: 10, queueMs: 10, totalMs: 185 }, 'from its arrival')
  t.ok((await later).end!.timings.queueMs > 100, 'one that came meanwhile waits from then on')
})

t.test('while there is no engine', async (t) => {
  const registry = new PluginRegistry()
  const sized = definePolicy({
    name: 'second',
    doc: 'Has a size.',
    options: z.object({ size: z.number() }),
    create: (options) => ({ ...firstComeFirstServed, name: 'second', options }),
  })
  registry.registerPolicy(sized)
  const supervisor = { maxQueuedRequests: 2 }
  const made = supervised({ slots: 1, loadMs: 50, registry, supervisor })
  const { clock, client, submit, kill, run } = made
  await run(client.ready())
  await run(client.setScheduler('second', { size: 3 }))
  const first = submit({ ...greedy(promptOf(9), 20), id: 'first' })
  await runUntilIdle(clock, clock.now() + 35)
  const counted = t.rejects(client.statistics(), { code: 'engine_unavailable' })
  kill()
  await counted
  t.equal(client.state, 'restarting')
  const probes: Promise<unknown>[] = [client.statistics(), client.getScheduler()]
  for (const call of [...probes, client.explain('first')]) {
    await t.rejects(call, { code: 'engine_unavailable', status: 503, message: /restarted/ })
  }
  t.match(await client.info(), { model: { id: 'fake' } })
  const tokens = client.tokenize('abc')
  const second = submit({ ...greedy(promptOf(9), 20), id: 'second' })
  t.match((await submit({ ...greedy([5], 1), id: 'second' })).error, { code: 'duplicate_request' })
  const third = submit({ ...greedy([5], 1), id: 'third' })
  t.match((await submit(greedy([5], 1))).error, { code: 'queue_full', status: 429 })
  client.cancel('third')
  t.match((await third).error, { code: 'cancelled' })
  client.cancel('nobody')
  const drained = client.drain()
  t.match((await submit(greedy([5], 1))).error, { code: 'shutting_down' })
  t.equal((await run(first)).tokens.length, 20)
  t.equal((await tokens).length, 4)
  t.equal((await run(second)).tokens.length, 20)
  await run(drained)
  t.match(await run(client.getScheduler()), { policy: 'second', options: { size: 3 } })
  t.equal(client.state, 'up')
  t.match(await run(client.statistics()), { requests: { done: 2 } })
})

t.test('a drain waits for embeddings', async (t) => {
  const { client, run } = supervised({ embeddingSize: 4 })
  await run(client.ready())
  let isOver = false
  void client.embed({ tokens: [5] }).then(() => (isOver = true))
  await run(client.drain())
  t.equal(isOver, true)
  const leaving = new AbortController()
  const left = client.embed({ tokens: [5] }, { signal: leaving.signal })
  const draining = client.drain()
  leaving.abort()
  await t.rejects(left, { code: 'cancelled' })
  await run(draining)
  await run(client.close())
})

t.test('a restarted engine says which adapters it has', async (t) => {
  const { client, clock, kill, run } = supervised({ adapters: true })
  await run(client.loadAdapter({ name: 'a', path: 'a.gguf' }))
  t.match((await client.info()).adapters, [{ name: 'a', id: 0 }])
  kill()
  await runUntilIdle(clock, clock.now() + 2000)
  t.equal(client.restarts, 1)
  t.equal((await client.info()).adapters, undefined)
  await run(client.close())
})

t.test('it is closed while there is no engine', async (t) => {
  const { clock, client, submit, kill, starts, run } = supervised({ loadMs: 50 })
  await run(client.ready())
  const answer = submit(greedy(promptOf(9), 20))
  await runUntilIdle(clock, clock.now() + 35)
  kill()
  await run(client.close())
  t.match((await answer).error, { code: 'shutting_down' })
  client.kill()
  t.match(await run(client.gone), /stopped/)
  await runUntilIdle(clock)
  t.equal(starts.length, 1, 'no engine is started any more')
})

t.test('restarts back off, and failed starts come to an end', async (t) => {
  const supervisor = { restartDelaysMs: [0, 100, 300], maxStarts: 3 }
  const made = supervised({ supervisor, failing: (start) => start > 5 })
  const { clock, client, submit, kill, starts, run } = made
  await run(client.ready())
  for (let death = 0; death < 4; death++) {
    await runUntilIdle(clock, clock.now() + 400)
    kill()
  }
  await runUntilIdle(clock, clock.now() + 70_000)
  t.same(
    starts.map((at) => at - 1000),
    [0, 400, 900, 1500, 1900],
  )
  const last = submit(greedy(promptOf(9), 200))
  await runUntilIdle(clock, clock.now() + 35)
  kill()
  t.match((await run(last)).error, { code: 'engine_unavailable', message: /that is a picture/ })
  t.match(await run(client.gone), /that is a picture/)
  t.equal(client.state, 'gone')
  t.equal(starts.length, 8)
  t.equal(starts[5], starts[4]! + 70_000 - 300 + 35, 'after a long life at once')
  t.same(
    [starts[6]! - starts[5]!, starts[7]! - starts[6]!],
    [101, 301],
    'after failed starts later',
  )
  t.match((await submit(greedy([5], 1))).error, { code: 'engine_unavailable' })
  await runUntilIdle(clock)
  t.equal(starts.length, 8, 'and that is the end')
})

t.test('one that could not start at all is not started again', async (t) => {
  const { client, run, starts } = supervised({ failing: () => true })
  await t.rejects(run(client.ready()), { code: 'model_invalid' })
  t.match(await run(client.gone), /picture/)
  t.equal(starts.length, 1)
  const slow = supervised({ loadMs: 5000, supervisor: { startTimeoutMs: 1000 } })
  await t.rejects(slow.run(slow.client.ready()), { message: /not ready after 1 s/ })
})

t.test('after a second death the suspects run one at a time, before all others', async (t) => {
  const batches: string[][] = []
  const onStep: Setting['onStep'] = async (process, batch) => {
    const engine = processes.indexOf(process)
    batches.push([engine, ...batch.map(({ slot }) => slot)].map(String))
    // Only together they kill it: none of them may be failed for that.
    if (batch.length < 4 || batches.length % 5 !== 0) return
    process.kill()
    await new Promise(() => {})
  }
  const { processes, run, submit, client } = supervised({ onStep })
  const ends: number[] = []
  const answers = await run(
    Promise.all(
      [0, 1, 2, 3, 4, 5].map(async (number) => {
        const answer = await submit(greedy(promptOf(9, number), 12))
        ends.push(number)
        return answer
      }),
    ),
  )
  t.equal(client.restarts, 2)
  for (const { tokens, error } of answers) t.same([tokens.length, error], [12, undefined])
  const last = batches.filter(([engine]) => engine === '2').map((batch) => batch.length - 1)
  const firstTogether = last.findIndex((size) => size > 1)
  t.ok(firstTogether > 8, 'the four go one after the other')
  t.ok(last.slice(firstTogether).includes(2), 'those that no engine died of go on together')
  t.same(ends, [0, 1, 2, 3, 4, 5], 'in their order')
})

t.test('setting the system clock changes no deadline, timer or watchdog', async (t) => {
  const { now } = Date
  t.teardown(() => (Date.now = now))
  const start = () => new FakeProcess({ stepMs: () => 0, clock: systemClock as SimulatedClock })
  const options = { hangTimeoutMs: 60_000 }
  const client = new SupervisedEngineClient({ start, options, random: counting() })
  t.teardown(() => client.kill())
  await client.ready()
  let jumps = 0
  // A day forward and a day back, again and again.
  Date.now = () => now() + (jumps++ % 2 === 0 ? 1 : -1) * 86_400_000
  const before = systemClock.now()
  const request = { ...greedy(promptOf(9), 20), timeoutMs: 60_000, deadlineMs: 60_000 }
  const { tokens, error, end } = await collect(client.submit(request))
  t.same([tokens.length, error], [20, undefined])
  const elapsed = systemClock.now() - before
  t.ok(end!.timings.totalMs >= 0 && end!.timings.totalMs <= elapsed)
  t.equal(client.restarts, 0)
})
