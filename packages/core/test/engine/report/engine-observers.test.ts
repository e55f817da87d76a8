import {
  CLOCK,
  createEngine,
  type EngineObserver,
  ENGINE_OBSERVER,
  LocalEngineClient,
  type Logger,
  PluginRegistry,
  type RequestEnd,
  SimulatedClock,
  type StepRecord,
} from '@cllm/core'
import { drive, FakeBackend, runUntilIdle, firstComeFirstServed } from '@cllm/core/testing'
import t from 'tap'
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
  const log = (_fields: unknown, message?: string) => void logged.push(String(message))
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
