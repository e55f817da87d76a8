import {
  ACTIVITY,
  CLOCK,
  Counters,
  ENGINE_OBSERVER,
  type EngineObserver,
  type Logger,
  PluginRegistry,
  type RecordedStep,
  type RequestEnd,
  SimulatedClock,
  type StepRecord,
  type WaitReason,
  createEngine,
} from '@cllm/core'
import { LocalEngineClient } from '@cllm/host'
import { FakeBackend, drive, firstComeFirstServed, runUntilIdle } from '@cllm/testing'
import * as fc from 'fast-check'
import t from 'tap'
import { type CommonReason, WaitAttribution } from '../../../src/engine/report/timeline.js'
import { collect, counting, greedy, policyOf, promptOf, rig } from '../../rig.js'

/** Writes down what an observer is told of requests, in order. */
function diary() {
  const told: string[] = []
  const steps: StepRecord[] = []
  const ends: RequestEnd[] = []
  const observer: EngineObserver = {
    onQueued: ({ id }, now) => told.push(`${now} ${id} queued`),
    onRefused: (id, { code }, now) => told.push(`${now} ${id} refused ${code}`),
    onAdmitted: ({ id, state }, now) => told.push(`${now} ${id} admitted ${state}`),
    onPreempted: ({ id, state }, now) => told.push(`${now} ${id} preempted ${state}`),
    onHeld: ({ id }, now) => told.push(`${now} ${id} held`),
    onReleased: ({ id }, now) => told.push(`${now} ${id} released`),
    onFinished: ({ id, state }, now) => told.push(`${now} ${id} finished ${state}`),
    onEnded: ({ id }, end, now) => {
      told.push(`${now} ${id} ended ${end.error?.code ?? end.state}`)
      ends.push(end)
    },
    onStep: (step) => steps.push(step),
  }
  return { told, steps, ends, observer }
}

t.test('an observer hears of every change of a request once, in order', async (t) => {
  const { engine, client, clock, run } = rig({ slots: 1 })
  const { told, ends, observer } = diary()
  engine.observe(observer)
  const first = collect(client.submit({ ...greedy([5], 2), id: 'first' }))
  const second = collect(client.submit({ ...greedy([6], 2), id: 'second' }))
  const wrong = collect(client.submit({ ...greedy([7], 0), id: 'wrong' }))
  await runUntilIdle(clock, 1005)
  client.cancel('second')
  await run(Promise.allSettled([first, second, wrong]))
  t.same(told, [
    '1000 first queued',
    '1000 second queued',
    '1000 wrong refused invalid_request',
    '1000 first admitted prefilling',
    '1010 second finished cancelled',
    '1010 second ended cancelled',
    '1020 first finished done',
    '1020 first ended done',
  ])
  t.match(ends[1], { state: 'done', error: undefined, usage: { generatedTokens: 2 } })
  t.match(ends[1]?.timings, { queueMs: 0, firstTokenMs: 10, prefillChunks: 1 })
})

t.test('its clock never goes back, however long ago a request arrived', async (t) => {
  const clocks: number[] = []
  const policy = policyOf(
    (state) => firstComeFirstServed.plan(state),
    ({ now }) => void clocks.push(now),
  )
  const { engine, client, clock, run } = rig({ slots: 1, policy })
  const first = collect(client.submit({ ...greedy([5], 9), id: 'first' }))
  await runUntilIdle(clock, 1035)
  const { told, observer } = diary()
  engine.observe(observer)
  const continued = { tokens: [7], elapsedMs: 800 }
  const answers = [
    collect(client.submit({ ...greedy([6], 2), id: 'late', arrivedMsAgo: 500 })),
    collect(client.submit({ ...greedy([6], 2), id: 'continued', continued })),
  ]
  t.same(told, ['1035 late queued', '1035 continued queued'])
  await run(Promise.all([first, ...answers]))
  t.same(
    clocks,
    clocks.toSorted((one, other) => one - other),
  )
  const { arrival, timings, timeline } = await client.explain('late')
  t.match({ arrival, timings }, { arrival: 535, timings: { queueMs: 565 } })
  const waits = timeline.flatMap((entry) => (entry.type === 'waited' ? [entry] : []))
  t.match(waits, [{ atMs: 0, untilMs: 565, reasons: { step: 5, slots: 60 } }], 'those of 65 ms')
})

t.test('tokens that a request came with are not counted again', async (t) => {
  const { client, run } = rig()
  const continued = { tokens: [7, 8], elapsedMs: 5 }
  await run(collect(client.submit({ ...greedy([5], 6), continued })))
  t.equal((await client.statistics()).generatedTokens, 4)
})

t.test('of a wait for a model, reasons that held for no time are left out', async (t) => {
  const { client, run } = rig()
  const modelWait = { turn: 0, load: 40 }
  await run(collect(client.submit({ ...greedy([5], 2), id: 'loaded', modelWait })))
  const { timeline } = await client.explain('loaded')
  t.same(
    timeline.find(({ type }) => type === 'waited'),
    {
      type: 'waited',
      atMs: -40,
      untilMs: 0,
      reasons: { load: 40 },
    },
  )
})

t.test('it hears of preemptions and of requests held back for a prefix', async (t) => {
  const preempting = rig({
    slots: 1,
    policy: policyOf((state) => {
      const [first] = state.running
      const isTurn = first?.generatedTokens === 2 && first.preemptions === 0
      if (!isTurn) return firstComeFirstServed.plan(state)
      return { admit: [], reject: [], run: [], preempt: [first.id], wakeAt: state.now + 5 }
    }),
  })
  const one = diary()
  preempting.engine.observe(one.observer)
  await preempting.ask({ ...greedy([5], 3), id: 'a' })
  t.same(
    one.told.filter((line) => /admitted|preempted/.test(line)),
    ['1000 a admitted prefilling', '1020 a preempted preempted', '1020 a admitted prefilling'],
  )

  const sharing = rig({ slots: 2 })
  const two = diary()
  sharing.engine.observe(two.observer)
  const prompt = promptOf(200)
  const leader = collect(sharing.client.submit({ ...greedy(prompt, 2), id: 'leader' }))
  await runUntilIdle(sharing.clock, 1005)
  const follower = collect(sharing.client.submit({ ...greedy([...prompt, 9], 2), id: 'follower' }))
  await sharing.run(Promise.all([leader, follower]))
  const heard = two.told.filter((line) => /follower (queued|held|released|admitted)/.test(line))
  t.same(heard, [
    '1005 follower queued',
    '1005 follower held',
    '1010 follower released',
    '1010 follower admitted prefilling',
  ])
})

t.test('one record a step has the sums of its parts', async (t) => {
  const { engine, client, run } = rig({ slots: 2 })
  const { steps, observer } = diary()
  engine.observe(observer)
  await run(
    Promise.all([
      collect(client.submit({ ...greedy(promptOf(20), 3), id: 'a' })),
      collect(client.submit({ ...greedy(promptOf(7, 2), 2), id: 'b' })),
    ]),
  )
  const sums = steps.map((step) => [
    step.prefillTokens,
    step.prefillSequences,
    step.decodeSequences,
    step.decodeContextTokens,
    step.contextTokens,
    step.durationMs,
    step.parts.length,
  ])
  t.same(sums, [
    [27, 2, 0, 0, 0, 10, 2],
    [0, 0, 2, 27, 27, 10, 2],
    [0, 0, 1, 21, 21, 10, 1],
  ])
  t.ok(steps.every(({ isWhole }) => isWhole))
})

t.test('one that throws is logged once, and neither the engine nor others notice', async (t) => {
  const logged: string[] = []
  const methods: unknown[] = []
  const log = (fields: Readonly<Record<string, unknown>>, message?: string) => {
    logged.push(String(message))
    methods.push(fields['methods'])
  }
  const logger = { debug: log, info: log, warn: log, error: log } as unknown as Logger
  const { engine, ask } = rig({ logger })
  const broken: EngineObserver = {
    onStep() {
      throw new Error('broken')
    },
    onQueued() {
      throw new Error('broken')
    },
  }
  engine.observe(broken)
  // An async method fits `void`, too; its rejection is handled.
  const lateLog = { onEnded: async () => await Promise.reject(new Error('late')) }
  engine.observe(lateLog)
  const { told, steps, observer } = diary()
  const stop = engine.observe(observer)
  const answer = await ask({ ...greedy([5], 3), id: 'a' })
  t.equal(answer.tokens.length, 3)
  t.equal(steps.length, 3)
  t.equal(logged.length, 2, 'once for each')
  t.same(methods, [['onStep', 'onQueued'], ['onEnded']], 'told by what they listen to')
  const before = told.length
  stop()
  await ask({ ...greedy([5], 3), id: 'b' })
  t.equal(told.length, before, 'and one that was removed hears nothing more')
})

t.test("observers come with the engine's parts and from plug-ins too", async (t) => {
  const clock = new SimulatedClock(1000)
  const [given, provided] = [diary(), diary()]
  const registry = new PluginRegistry()
  registry.provide(ENGINE_OBSERVER, 'diary', ({ get }) => {
    t.equal(get(CLOCK), clock, 'a part is made with others of its engine')
    return provided.observer
  })
  const engine = createEngine({
    backend: new FakeBackend({ clock, stepMs: () => 10 }),
    policy: firstComeFirstServed,
    clock,
    random: counting(),
    registry,
    observers: [given.observer],
  })
  const client = new LocalEngineClient(engine, registry, counting())
  await drive(clock, collect(client.submit({ ...greedy([5], 1), id: 'a' })))
  for (const { told } of [given, provided]) {
    t.equal(told.at(0), '1000 a queued')
    t.equal(told.at(-1), '1010 a ended done')
  }
})

const plain = { arrival: 100, deadline: undefined }

t.test('a wait is split by what held meanwhile', async (t) => {
  const waits = new WaitAttribution()
  waits.turn('slots', 100)
  const start = waits.begin(110)
  waits.turn('budget', 130)
  waits.turn('policy', 150)
  waits.turn('step', 150)
  const reasons = {}
  waits.explain(start, plain, 170, reasons)
  t.same(reasons, { slots: 20, budget: 20, step: 20 }, 'a reason that held for no time is left out')
  waits.explain(start, plain, 170, reasons)
  t.same(reasons, { slots: 40, budget: 40, step: 40 }, 'it adds to what is there')
})

t.test('from the first admission of a later request on, the order is the reason', async (t) => {
  const waits = new WaitAttribution()
  waits.turn('slots', 100)
  const start = waits.begin(100)
  waits.onAdmitted(90, undefined, 105)
  waits.onAdmitted(110, undefined, 120)
  waits.onAdmitted(130, 500, 140)
  const explain = (request: { arrival: number; deadline: number | undefined }, now: number) => {
    const reasons: Partial<Record<WaitReason, number>> = {}
    waits.explain(start, request, now, reasons)
    return reasons
  }
  t.same(explain(plain, 150), { slots: 20, order: 30 }, 'an earlier arrival overtakes nothing')
  t.same(explain(plain, 120), { slots: 20 }, 'the admission of this moment cost no time yet')
  t.same(explain({ arrival: 120, deadline: undefined }, 150), { slots: 40, deadline: 10 })
  t.same(explain({ arrival: 120, deadline: 400 }, 150), { slots: 40, order: 10 })
  t.same(explain({ arrival: 140, deadline: undefined }, 150), { slots: 50 })
})

interface Turn {
  readonly ms: number
  readonly reason: CommonReason
  /** How long ago the admitted request of this turn arrived; undefined: none is admitted. */
  readonly admitted: number | undefined
}

const turns = fc.array(
  fc.record<Turn>({
    ms: fc.nat(20),
    reason: fc.constantFrom('step', 'slots', 'budget', 'policy'),
    admitted: fc.option(fc.nat(60), { nil: undefined }),
  }),
  { minLength: 1, maxLength: 60 },
)

t.test('the reasons add up to the wait, as counting millisecond by millisecond does', async (t) => {
  let runs = 0
  let overtaken = 0
  fc.assert(
    fc.property(turns, fc.nat(60), (given, from) => {
      runs++
      const waits = new WaitAttribution()
      const expected: Record<string, number> = {}
      let now = 0
      let start: ReturnType<WaitAttribution['begin']> | undefined
      let isOvertaken = false
      let reason: CommonReason = 'step'
      for (const [index, turn] of given.entries()) {
        if (index === from % given.length) start = waits.begin(now)
        if (turn.admitted !== undefined) {
          const arrival = now - turn.admitted
          waits.onAdmitted(arrival, undefined, now)
          if (start !== undefined && arrival > start.at) isOvertaken = true
        }
        waits.turn((reason = turn.reason), now)
        now += turn.ms
        if (start === undefined || turn.ms === 0) continue
        const key = isOvertaken ? 'order' : reason
        expected[key] = (expected[key] ?? 0) + turn.ms
      }
      if (start === undefined) return
      const reasons: Partial<Record<WaitReason, number>> = {}
      waits.explain(start, { arrival: start.at, deadline: undefined }, now, reasons)
      const sum = Object.values(reasons).reduce((total, ms) => total + ms, 0)
      if (sum !== now - start.at) throw new Error(`${sum} ms of ${now - start.at}`)
      if (JSON.stringify(sorted(reasons)) !== JSON.stringify(sorted(expected))) {
        throw new Error(`${JSON.stringify(reasons)} instead of ${JSON.stringify(expected)}`)
      }
      if (isOvertaken) overtaken++
    }),
    { numRuns: 500 },
  )
  t.ok(overtaken > runs / 10, 'many of them were overtaken')
})

t.test('after very many admissions the wait still adds up', async (t) => {
  const waits = new WaitAttribution()
  const start = waits.begin(0)
  for (let n = 1; n <= 5000; n++) waits.onAdmitted(n, undefined, n)
  const reasons: Partial<Record<WaitReason, number>> = {}
  waits.explain(start, { arrival: 0, deadline: undefined }, 6000, reasons)
  t.equal((reasons.step ?? 0) + (reasons.order ?? 0), 6000)
  t.ok((reasons.order ?? 0) >= 1000, 'at least since the oldest admission that is kept')
})

const sorted = (reasons: Readonly<Record<string, number>>) =>
  Object.entries(reasons).sort(([a], [b]) => a.localeCompare(b))

t.test('a live view: what each request did, in frames, while somebody asks', async (t) => {
  // Of two that run, the second one is paused until 1,050.
  const policy = policyOf((state) => {
    const plan = firstComeFirstServed.plan(state)
    return { ...plan, run: state.now < 1050 ? plan.run.slice(0, 1) : plan.run }
  })
  const { engine, client, clock, run } = rig({ slots: 2, policy })
  const watch = engine.features.get(ACTIVITY)
  t.equal(watch.isOn, false)
  t.match(watch.look(), { now: 1000, cursor: 0, lost: 0, policy: 'tested', frames: [] })
  const answers = ['a', 'b', 'c'].map((id, index) => {
    return collect(client.submit({ ...greedy([5 + index], 8), id, tenant: index > 0 ? 'x' : 'y' }))
  })
  await runUntilIdle(clock, 1045)
  const { frames, queue, waiting, slots, cursor } = watch.look()
  t.same([waiting, queue.map(({ id }) => id), cursor], [1, ['c'], 1])
  t.match(queue[0], { tenant: 'x', promptTokens: 1, reasons: { slots: 45 }, state: 'queued' })
  t.equal(slots.length, 2)
  const told = (all: typeof frames) =>
    all.flatMap(({ spans }) =>
      spans.map(({ id, kind, slot = '-', atMs, untilMs, tokens }) =>
        [id, kind, slot, atMs, untilMs, tokens].join(' '),
      ),
    )
  t.same(told(frames), [
    'a wait - 1000 1000 0',
    'b wait - 1000 1000 0',
    'a prefill 0 1000 1010 1',
    'b pause 1 1000 1040 0',
    'a decode 0 1010 1040 3',
  ])
  t.match(frames[0], { firstTokensMs: [10], steps: { count: 4, prefillTokens: 1 } })
  t.same(frames[0]?.tenants, { y: 4 })
  t.same(frames[0]?.itl, [[17, 3]], '1.15 ** 17 is 10.8')

  await run(Promise.all(answers))
  const late = watch.look(cursor)
  const whole = late.frames.flatMap(({ spans }) => spans)
  t.ok(whole.some(({ id, kind }) => id === 'c' && kind === 'wait'))
  t.same(late.frames.flatMap(({ ended }) => ended.map(({ id }) => id)).sort(), ['a', 'b', 'c'])
  t.same(watch.look(late.cursor).frames, [], 'nothing twice')
  t.ok(watch.look(0).frames.length > 0, 'another one who watches has a cursor of its own')

  clock.advance(5001)
  await run(collect(client.submit(greedy([9], 2))))
  t.equal(watch.isOn, false, 'nobody asked for five seconds')
  t.match(watch.look(late.cursor), { frames: [] })
  t.equal(watch.isOn, true)
  for (let count = 0; count < 30; count++) {
    await run(collect(client.submit(greedy([9], 1))))
    watch.look()
  }
  const { frames: kept, lost } = watch.look(late.cursor)
  t.same([kept.length, lost > 0], [20, true], 'a bounded number is kept')
})

t.test(
  'the time of a pass with prompts and answers is shared out by what each takes alone',
  (t) => {
    const step = (decodeMs: number, tokens: number, decode: number): RecordedStep => ({
      atMs: 0,
      ms: decodeMs,
      decodeMs,
      sampleMs: 0,
      decode,
      context: 0,
      chunks: tokens === 0 ? [] : [[tokens, 0]],
    })
    const counters = new Counters()
    const told: number[] = []
    for (const pass of [step(110, 10, 1), step(100, 100, 0), step(50, 0, 1), step(150, 50, 2)]) {
      counters.countStep(pass)
      told.push(counters.snapshot().prefillMs)
    }
    t.same(told, [100, 200, 200, 250], 'by tokens as long as neither has been alone')
    t.end()
  },
)
