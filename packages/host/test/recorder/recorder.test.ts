import {
  batchPriority,
  CllmError,
  type EngineStatistics,
  type GenerateRequest,
  type Recording,
  SimulatedClock,
} from '@cllm/core'
import { defaultRecorderOptions, SupervisedEngineClient } from '@cllm/host'
import { drive, runUntilIdle } from '@cllm/testing'
import * as fc from 'fast-check'
import t from 'tap'
import { FlightRecorder } from '../../src/recorder/flight-recorder.js'
import { FakeProcess, type FakeProcessOptions } from '../fake-process.js'
import { collect, counting, greedy, promptOf } from '../../../core/test/rig.js'

function recorded(options: Partial<FakeProcessOptions> = {}, recorder = {}) {
  const clock = new SimulatedClock(1000)
  const crashes: Recording[] = []
  let last: FakeProcess | undefined
  const client = new SupervisedEngineClient({
    start: () => (last = new FakeProcess({ clock, ...options })),
    clock,
    random: counting(),
    recorder: { onCrash: (recording: Recording) => crashes.push(recording), ...recorder },
  })
  const run = async <T>(promise: Promise<T>): Promise<T> => await drive(clock, promise)
  const submit = (request: GenerateRequest) => collect(client.submit(request))
  const kill = () => last?.kill('its process ended with SIGSEGV')
  return { clock, client, crashes, run, submit, kill }
}

t.test('what came and what was computed, and nothing that was said', async (t) => {
  const { clock, client, run, submit } = recorded({ slots: 4 })
  await run(client.ready())
  await runUntilIdle(clock, 1100)
  clock.aheadMs = 3_600_000 // the machine slept for an hour
  const shared = promptOf(40)
  const first = { ...greedy(shared, 3), id: 'first', tenant: 'a', priority: 2, session: 'secret' }
  const second = { ...greedy([...shared, 7, 8], 9), id: 'second', session: 'secret', cache: true }
  await run(submit({ ...first, deadlineMs: 500 }))
  const answer = submit({ ...second, timeoutMs: 45 })
  t.match((await run(answer)).error, { code: 'timeout' })
  t.match((await run(submit({ prompt: { tokens: [] }, id: 'wrong' }))).error, { status: 400 })
  const under = client.submit({ prompt: { text: 'a canary sings' }, maxTokens: 50, id: 'open' })
  for (let heard = 0; heard < 3; heard++) await run(under.next())

  const recording = await run(client.recording())
  t.match(recording, {
    schema: 1,
    kind: 'recording',
    reason: 'asked',
    beginsAt: 3_601_000,
    model: 'fake',
    policy: 'first-come-first-served',
    policyOptions: {},
    blockTokens: 16,
    limits: { slots: 4 },
    engine: [{ atMs: 0, change: 'ready' }],
  })
  const [one, two, wrong, open, ...more] = recording.arrivals
  t.same(more, [])
  t.same(one, {
    id: 'first',
    atMs: 100,
    promptTokens: 40,
    maxTokens: 3,
    priority: 2,
    deadlineMs: 500,
    tenant: 'a',
    session: 0,
    blocks: [0, 1],
    tokens: 3,
    firstTokenMs: 10,
    endMs: 30,
    end: 'done',
  })
  t.match(two, { session: 0, cache: true, blocks: [0, 1], end: 'timeout', timeoutMs: 45 })
  t.match(wrong, { id: 'wrong', blocks: [], tokens: 0, end: 'invalid_request' })
  t.notOk('promptTokens' in wrong!)
  t.match(open, { id: 'open', tokens: 2 })
  t.notOk('end' in open!)

  const { steps } = recording
  t.same(steps[0], {
    atMs: 100,
    ms: 10,
    decodeMs: steps[0]!.decodeMs,
    sampleMs: steps[0]!.sampleMs,
    decode: 0,
    context: 0,
    chunks: [[40, 0]],
  })
  t.match(steps[1], { atMs: 110, decode: 1, context: 40, chunks: [] })
  const computed = steps.reduce(
    (sum, { chunks }) => sum + chunks.reduce((all, [n]) => all + n, 0),
    0,
  )
  t.ok(computed > 40 && computed < 40 + 42 + 20, 'what a slot had was not computed')
  t.notMatch(JSON.stringify(recording), /canary|secret/)
  await under.return?.()
})

t.test('a crash writes down what led to it, whoever was under way', async (t) => {
  const { clock, client, crashes, run, submit, kill } = recorded({ slots: 1, loadMs: 5 })
  await run(client.ready())
  const all = [1, 2].map((n) => submit({ ...greedy(promptOf(9, n), 8), id: `r${n}` }))
  await runUntilIdle(clock, clock.now() + 45)
  kill()
  t.equal(crashes.length, 1)
  const [recording] = crashes
  t.equal(recording?.reason, 'its process ended with SIGSEGV')
  t.match(recording?.engine.at(-1), { change: 'gone', reason: /SIGSEGV/ })
  t.match(recording?.arrivals, [
    { id: 'r1', promptTokens: 9 },
    { id: 'r2', promptTokens: 9, tokens: 0 },
  ])
  t.notOk(recording?.arrivals.some((arrival) => 'end' in arrival))
  await run(Promise.all(all))
  const later = await run(client.recording())
  t.same(
    later.arrivals.map(({ id, end, tokens }) => [id, end, tokens]),
    [
      ['r1', 'done', 8],
      ['r2', 'done', 8],
    ],
    'the same requests go on',
  )
  t.same(
    later.engine.map(({ change }) => change),
    ['ready', 'gone', 'ready'],
  )
  await run(client.close())
  t.equal(crashes.length, 1, 'an end that was asked for is no crash')
})

t.test('an engine that starts after the machine slept has another clock', async (t) => {
  let aheadMs = 0
  const { client, run, submit, kill } = recorded({ slots: 1, aheadMs: () => aheadMs })
  await run(client.ready())
  for (aheadMs of [3_600_000, -3_600_000]) {
    kill()
    await run(submit(greedy([1], 4)))
    const { steps, durationMs } = await run(client.recording())
    t.ok(steps.length > 2)
    t.ok(steps.every(({ atMs }) => atMs >= 0 && atMs <= durationMs))
  }
})

t.test('a start that fails is in the next recording, and has none of its own', async (t) => {
  const { clock, client, crashes, run, kill } = recorded({ loadMs: 5 })
  await run(client.ready())
  for (const afterMs of [0, 3, 1000]) {
    await runUntilIdle(clock, clock.now() + afterMs)
    kill()
  }
  t.same(
    crashes.map(({ engine }) => engine.map(({ change }) => change)),
    [
      ['ready', 'gone'],
      ['ready', 'gone', 'gone', 'ready', 'gone'],
    ],
  )
  await run(client.close())
})

t.test('it keeps so many minutes, and takes so much memory', async (t) => {
  const { clock, client, run, submit } = recorded(
    { slots: 2, contextSize: 600 },
    { windowMs: 1000 },
  )
  await run(client.ready())
  const long = submit({ ...greedy([5], 500), id: 'long' })
  for (let n = 0; n < 50; n++) {
    await runUntilIdle(clock, clock.now() + 60)
    void submit({ ...greedy(promptOf(20, n), 2), id: `r${n}` })
  }
  await runUntilIdle(clock, clock.now() + 50)
  const { arrivals, steps, beginsAt, durationMs } = await run(client.recording())
  t.equal(durationMs, 1000)
  t.equal(beginsAt, clock.now() - 1000)
  t.equal(arrivals[0]?.id, 'long', 'though it came before')
  t.ok(arrivals[0]!.atMs < 0)
  t.ok(arrivals.slice(1).every(({ atMs }) => atMs >= 0))
  t.equal(arrivals.length, 1 + 16)
  t.ok(steps.every(({ atMs }) => atMs >= 0))
  await run(long)

  const small = recorded({ slots: 2 }, { maxBytes: 20_000 })
  await small.run(small.client.ready())
  for (let n = 0; n < 200; n++) await small.run(small.submit(greedy(promptOf(100, n), 2)))
  const { recorder } = await small.run(small.client.statistics())
  t.ok(recorder!.bytes <= 20_000 && recorder!.bytes > 15_000, String(recorder!.bytes))
  const kept = await small.run(small.client.recording())
  t.equal(kept.arrivals.length, recorder!.arrivals)
  t.ok(kept.arrivals.length > 15 && kept.arrivals.length < 40)
  t.ok(kept.steps[0]!.atMs >= 0 && kept.arrivals[0]!.atMs >= 0)
  t.ok(kept.beginsAt > 1000, 'it begins where all that is left begins')
})

t.test('what is queued after it was dropped does not count for ever', async (t) => {
  const clock = new SimulatedClock(1000)
  const recorder = new FlightRecorder(clock, { ...defaultRecorderOptions, windowMs: 1000 })
  recorder.onArrival('a', greedy([5], 2))
  clock.advance(2000)
  t.same(recorder.statistics(), { arrivals: 0, steps: 0, bytes: 0 })
  recorder.onQueued({ id: 'a', maxTokens: 2, blocks: [1, 2, 3] })
  t.same(recorder.statistics(), { arrivals: 0, steps: 0, bytes: 0 })
})

t.test('without one', async (t) => {
  const { client, crashes, run, submit, kill } = recorded({}, { windowMs: 0 })
  await run(client.ready())
  const answer = submit(greedy([5, 6, 7], 4))
  await t.rejects(run(client.recording()), { code: 'unsupported', message: /switched off/ })
  t.equal((await run(answer)).tokens.length, 4)
  t.notOk((await run(client.statistics())).recorder)
  kill()
  t.same(crashes, [])
})

function watched(options: Partial<FakeProcessOptions> = {}, recorder = {}) {
  const clock = new SimulatedClock(1000)
  const crashes: Recording[] = []
  let last: FakeProcess | undefined
  const start = () => (last = new FakeProcess({ clock, ...options }))
  const onCrash = (recording: Recording) => crashes.push(recording)
  const client = new SupervisedEngineClient({
    start,
    clock,
    random: counting(),
    recorder: { onCrash, ...recorder },
  })
  const run = async <T>(promise: Promise<T>): Promise<T> => await drive(clock, promise)
  const submit = (request: GenerateRequest) => collect(client.submit(request))
  const kill = () => last?.kill()
  return { clock, client, crashes, run, submit, kill }
}

/** The counters that only rise. */
const totals = (statistics: EngineStatistics): number[] => [
  ...Object.values(statistics.requests),
  statistics.promptTokens,
  statistics.cachedTokens,
  statistics.generatedTokens,
  statistics.preemptions,
  statistics.policyFaults,
  statistics.interruptedSteps,
  statistics.steps,
  statistics.prefillTokens,
  statistics.decodeTokens,
  statistics.decodeMs,
  statistics.sampleMs,
  statistics.busyMs,
  ...statistics.stepMs.counts,
  ...statistics.stepTokens.counts,
  ...statistics.stepSequences.counts,
]

const load = fc.array(
  fc.record({
    at: fc.integer({ min: 0, max: 300 }),
    length: fc.integer({ min: 1, max: 60 }),
    tokens: fc.integer({ min: 1, max: 20 }),
    leavesAfter: fc.option(fc.integer({ min: 0, max: 10 }), { nil: undefined, freq: 2 }),
  }),
  { minLength: 1, maxLength: 10 },
)

t.test('counters go on over restarts and add up to what clients were told', async (t) => {
  let restarts = 0
  let cut = 0
  await fc.assert(
    fc.asyncProperty(
      load,
      fc.array(fc.integer({ min: 5, max: 150 }), { maxLength: 4 }),
      async (requests, deaths) => {
        const { clock, client, run, kill } = watched({ slots: 3, loadMs: 7, batchSize: 16 })
        await run(client.ready())
        let at = clock.now()
        for (const wait of deaths) clock.at((at += wait), kill)
        const told = { prompt: 0, cached: 0, generated: 0, done: 0, cut: 0, blamed: 0 }
        const ask = async (index: number): Promise<void> => {
          const { length, tokens, leavesAfter = Infinity } = requests[index]!
          let heard = 0
          let isOver = false
          const request = { ...greedy(promptOf(length, index % 3), tokens), id: `r${index}` }
          try {
            for await (const event of client.submit(request)) {
              if (event.type === 'token' && ++heard > leavesAfter) break
              if (event.type !== 'end') continue
              isOver = true
              told.prompt += event.usage.promptTokens
              told.cached += event.usage.cachedTokens
              told.generated += event.usage.generatedTokens
            }
          } catch (error) {
            // Two engines in a row were killed before its first token: it is taken for the reason.
            if (!CllmError.isInstance(error) || error.code !== 'engine_crashed') throw error
            told.blamed++
          }
          if (isOver) told.done++
          else told.cut++
        }
        const begin = clock.now()
        const answers = requests.map(
          ({ at: wait }, index) =>
            new Promise<void>((resolve) => {
              clock.at(begin + wait, () => resolve(ask(index)))
            }),
        )
        const all = Promise.all(answers)
        let before: number[] = []
        const open = new Set([all])
        void all.then(() => open.clear())
        while (open.size > 0) {
          await runUntilIdle(clock, clock.now() + 20)
          const now = await run(client.statistics()).then(totals, () => before)
          t.ok(now.every((value, index) => value >= (before[index] ?? 0), 'never less'))
          before = now
        }
        await all
        await runUntilIdle(clock, clock.now() + 1000)
        const statistics = await run(client.statistics())
        const { done, cancelled, failed } = statistics.requests
        t.equal(done + cancelled + failed, requests.length)
        t.equal(failed, told.blamed)
        t.ok(failed === 0 || deaths.length > 1, `${failed} failed`)
        // One that is left when all is said was done all the same.
        if (told.cut === 0) {
          t.equal(done, told.done)
          t.equal(statistics.promptTokens, told.prompt)
          t.equal(statistics.cachedTokens, told.cached)
          t.equal(statistics.generatedTokens, told.generated)
        }
        t.ok(statistics.generatedTokens >= told.generated)
        const sum = statistics.stepTokens.sum
        t.equal(sum, statistics.prefillTokens + statistics.decodeTokens)
        for (const { counts } of [statistics.stepMs, statistics.stepTokens]) {
          t.equal(
            counts.reduce((total, count) => total + count, 0),
            statistics.steps,
          )
        }
        restarts += client.restarts
        cut += told.cut
      },
    ),
    { numRuns: 30 },
  )
  t.ok(restarts > 15, `${restarts} restarts`)
  t.ok(cut > 5, `${cut} requests were cut off`)
})

t.test('tokens that a request came with are no work of this engine', async (t) => {
  const { clock, client, run, submit, kill } = watched()
  await run(client.ready())
  const request = { ...greedy(promptOf(9), 6), continued: { tokens: [5, 6], elapsedMs: 10 } }
  const begun = submit(request)
  kill()
  t.equal((await run(begun)).end?.usage.generatedTokens, 6)
  t.equal((await run(client.statistics())).generatedTokens, 4)
  const leave = async (): Promise<void> => {
    for await (const event of client.submit(request)) if (event.type === 'token') break
  }
  await run(leave())
  await runUntilIdle(clock, clock.now() + 100)
  const { generatedTokens, requests } = await run(client.statistics())
  t.match(requests, { done: 1, cancelled: 1 })
  t.equal(generatedTokens, 5)
})

t.test('what fails for lack of an engine is counted too', async (t) => {
  const { clock, client, run, submit, kill } = watched({ slots: 1, loadMs: 500 })
  await run(client.ready())
  const answer = submit({ ...greedy(promptOf(9), 50), timeoutMs: 200 })
  await runUntilIdle(clock, clock.now() + 55)
  kill()
  const { tokens, error } = await run(answer)
  t.equal(error?.code, 'timeout')
  const statistics = await run(
    (async () => {
      await runUntilIdle(clock, clock.now() + 1000)
      return await client.statistics()
    })(),
  )
  t.match(statistics, { requests: { timed_out: 1 }, generatedTokens: tokens.length })
  t.equal(statistics.promptTokens, 9)
})

t.test('interrupted steps are counted over restarts', async (t) => {
  const { clock, client, run, submit, kill } = watched({
    stepMs: (batch) => 10 * batch.reduce((sum, { tokens }) => sum + tokens.length, 0),
  })
  await run(client.ready())
  for (const count of [1, 2]) {
    const batch = submit({ ...greedy(promptOf(100), 2), priority: batchPriority })
    await runUntilIdle(clock, clock.now() + 300)
    await run(submit(greedy([5, 6, 7], 2)))
    await run(batch)
    t.equal((await run(client.statistics())).interruptedSteps, count)
    kill()
    await run(client.ready())
  }
})
