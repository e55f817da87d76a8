import {
  type PausedProgram,
  type SchedulerState,
  createEngine,
  PluginRegistry,
  SimulatedClock,
} from '@cllm/core'
import { LocalEngineClient } from '@cllm/host'
import { drive, FakeBackend, firstComeFirstServed } from '@cllm/testing'
import t from 'tap'

/** Requests one after the other on an engine, each `pauseMs` behind the one before. */
function agent(slots = 4) {
  const clock = new SimulatedClock(1000)
  const backend = new FakeBackend({ clock, slots, stepMs: () => 10, contextSize: 512 })
  const fcfs = firstComeFirstServed
  let seen: SchedulerState['programs']
  const policy = {
    ...fcfs,
    plan(state: SchedulerState) {
      seen = state.programs
      return fcfs.plan(state)
    },
  }
  const random = { uint32: () => 7 }
  const engine = createEngine({ backend, policy, clock, random })
  const client = new LocalEngineClient(engine, new PluginRegistry(), random)
  let count = 0
  const ask = async (tokens: readonly number[], pauseMs = 0, more = {}): Promise<number[]> => {
    if (pauseMs > 0) await new Promise<void>((done) => void clock.at(clock.now() + pauseMs, done))
    const id = `request ${count++}`
    const said = [...tokens]
    const sampling = { temperature: 0, ignoreEos: true }
    const request = { id, prompt: { tokens }, maxTokens: 5, sampling, ...more }
    for await (const event of client.submit(request)) {
      if (event.type === 'token') said.push(event.token)
    }
    return said
  }
  return {
    ask,
    programs: () => client.programs(),
    paused: (): readonly PausedProgram[] => seen!.paused(clock.now()),
    run: async (story: () => Promise<void>) => {
      await drive(clock, story())
      await engine.close()
    },
  }
}

const prompt = (start: number, length = 40): number[] =>
  Array.from({ length }, (_, index) => 10 + ((start * 31 + index * 7) % 200))

t.test('a program is learnt from prompts that go on with others and their answers', async (t) => {
  const { ask, programs, run } = agent()
  await run(async () => {
    const first = await ask(prompt(1))
    t.same(await programs(), [], 'one request is no program')
    const second = await ask([...first, ...prompt(2, 9)], 300)
    await ask([...second, ...prompt(3, 9)], 100)
    // what begins alike, ends earlier or goes on in another way does not belong to it
    await ask(prompt(1))
    await ask([...prompt(1), 9, 9, 9])
    await ask(first.slice(0, 20))
    await ask([...first, 11], 0, { tenant: 'another' })
    const [program, ...others] = await programs()
    t.same(others, [])
    t.match(program, { id: 'request 0', calls: 3, open: 0, pauses: 2, pausedMs: 400 })
    t.equal(program!.promptTokens, 40 + 54 + 68)
    t.equal(program!.generatedTokens, 15)
    t.equal(program!.keptTokens, 72, 'what its last request computed is in a slot')
    t.ok(program!.servedTokens < program!.promptTokens, 'what a slot had is no service')
  })
})

t.test('a session is a program of its tenant', async (t) => {
  const { ask, programs, run } = agent(1)
  await run(async () => {
    await ask(prompt(1), 0, { session: 'a' })
    await ask(prompt(2), 0, { session: 'a', tenant: 'other' })
    await ask(prompt(3), 50, { session: 'a' })
    t.match(await programs(), [
      { id: 'a', tenant: 'default', calls: 2, keptTokens: 44 },
      { id: 'a', tenant: 'other', calls: 1, keptTokens: 0 },
    ])
  })
})

t.test(
  'what a slot of a program is worth falls while nothing comes, and then it is gone',
  async (t) => {
    const { ask, programs, paused, run } = agent()
    await run(async () => {
      let text = await ask(prompt(1), 0, { session: 'a' })
      for (let call = 0; call < 20; call++) {
        text = await ask([...text, ...prompt(call, 4)], 200, { session: 'a' })
      }
      const rates: number[] = []
      for (const pauseMs of [10, 90, 200, 2000, 60_000]) {
        await ask(prompt(9), pauseMs)
        rates.push(paused()[0]?.returnRate ?? 0)
      }
      t.ok(rates[0]! > 1 / 400, `it is known to come within 256 ms: ${rates[0]}`)
      t.ok(rates[3]! < rates[0]! / 20, `it is late: ${rates[3]}`)
      t.ok(rates[4]! < rates[3]!)
      await ask(prompt(9), 3_600_000)
      t.same(paused(), [])
      t.same(await programs(), [])
    })
  },
)

t.test('the slot of a program that is about to return is the last to be lost', async (t) => {
  const { ask, programs, run } = agent(2)
  await run(async () => {
    const text = await ask(prompt(1, 100), 0, { session: 'agent' })
    await ask([...text, ...prompt(2, 9)], 50, { session: 'agent' })
    for (let other = 0; other < 6; other++) await ask(prompt(20 + other, 120), 10)
    t.match(await programs(), [{ id: 'agent', keptTokens: 118 }])
  })
})
