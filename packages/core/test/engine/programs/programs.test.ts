import {
  type ChatMessage,
  type GenerateRequest,
  type PausedProgram,
  type SchedulerState,
  createEngine,
  PluginRegistry,
  SimulatedClock,
  pause,
} from '@cllm/core'
import { LocalEngineClient } from '@cllm/host'
import { drive, FakeBackend, FakeTokenizer, firstComeFirstServed } from '@cllm/testing'
import t from 'tap'

const tokenizer = new FakeTokenizer()
const encode = (text: string) => tokenizer.encode(text, { addBos: false })
const answerTo = (what: string) =>
  encode(what.replace(/^say /, '').replace(/^use (.*)/, '{"name": "$1"}'))

/** The prompt of a request to say something, or to `use` a tool; behind a result of the tool `before`. */
const asks = (what: string, before?: string) => {
  const calls = before && [{ type: 'function' as const, function: { name: before, arguments: {} } }]
  const messages: ChatMessage[] = [
    { role: 'assistant', content: '', ...(calls && { tool_calls: calls }) },
    { role: 'user', content: `${what}.` },
  ]
  return { prompt: { messages }, maxTokens: answerTo(what).length }
}

/** What is asked to use a tool calls it, and what is asked to say something says it. */
function script(content: readonly number[]): number | undefined {
  const text = tokenizer.decode(content)
  const what = [...text.matchAll(/((use|say) [^.]+)\./g)].at(-1)?.[1]
  if (what === undefined) return undefined
  const said = text.slice(text.lastIndexOf('assistant\n') + 'assistant\n'.length)
  return answerTo(what)[encode(said).length]
}

/** Requests one after the other on an engine, each `pauseMs` behind the one before. */
function agent(slots = 4, cacheRamBytes = 0) {
  const clock = new SimulatedClock(1000)
  const backend = new FakeBackend({ clock, slots, stepMs: () => 10, contextSize: 512, script })
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
  const engine = createEngine({ backend, policy, clock, random, options: { cacheRamBytes } })
  const client = new LocalEngineClient(engine, new PluginRegistry(), random)
  let count = 0
  const ask = async (
    tokens: readonly number[],
    pauseMs = 0,
    more: Partial<GenerateRequest> = {},
  ): Promise<number[]> => {
    if (pauseMs > 0) await pause(clock, pauseMs)
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
    erase: async (slot: number) => await client.slotAction(slot, { action: 'erase' }),
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

t.test('a slot that a client erases keeps nothing of a program', async (t) => {
  const { ask, erase, programs, run } = agent(1)
  await run(async () => {
    await ask(prompt(1), 0, { session: 'one' })
    t.equal((await programs())[0]?.keptTokens, 44)
    await erase(0)
    t.equal((await programs())[0]?.keptTokens, 0)
  })
})

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
    t.same(
      (await programs()).map(({ id, tenant, calls, keptTokens }) => [
        id,
        tenant,
        calls,
        keptTokens,
      ]),
      [
        ['a', 'default', 2, 44],
        ['a', 'other', 1, 0],
      ],
    )
  })
})

t.test('a session that begins with a second request has the first one, too', async (t) => {
  const { ask, programs, run } = agent()
  await run(async () => {
    const first = await ask(prompt(1))
    const second = await ask([...first, ...prompt(2, 9)], 100, { session: 'a' })
    await ask([...second, ...prompt(3, 9)], 100, { session: 'a' })
    await ask([...first, ...prompt(4, 9)], 100, { session: 'b' })
    await ask(prompt(5))
    await ask([...prompt(5), 9, 9, 9], 0, { session: 'c' })
    await ask([...first, ...prompt(6, 9)], 100)
    const all = await programs()
    t.same(
      all.map(({ id, calls }) => [id, calls]),
      [
        ['a', 4],
        ['c', 1],
        ['b', 1],
      ],
      'each is listed once, even when a request without a session continues its first one',
    )
    t.equal(all[0]!.promptTokens, 40 + 54 + 68 + 54)
  })
})

t.test('a request that leaves before its turn is a call, and no service', async (t) => {
  const { ask, programs, run } = agent(1)
  await run(async () => {
    const first = ask(prompt(1), 0, { session: 'a' })
    await t.rejects(ask(prompt(2), 0, { session: 'b', timeoutMs: 15 }), { code: 'timeout' })
    await first
    t.match(await programs(), [
      { id: 'b', calls: 1, open: 0, servedTokens: 0, promptTokens: 0 },
      { id: 'a', servedTokens: 45 },
    ])
    const half = ask(prompt(3, 400), 0, { session: 'c', timeoutMs: 15 })
    await t.rejects(half, { code: 'timeout' })
    const [c] = await programs()
    t.equal(c!.id, 'c')
    t.ok(
      c!.servedTokens > 0 && c!.servedTokens < 400,
      `${c!.servedTokens} of its 400 were computed`,
    )
    t.equal(c!.promptTokens, c!.servedTokens)
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

t.test('a pause is expected to be as those after the tool that was called', async (t) => {
  const { ask, programs, paused, run } = agent()
  const use = async (tool: string, pauseMs: number, before?: string) => {
    await ask([], pauseMs, { ...asks(`use ${tool}`, before), session: 'a' })
  }
  const rateAfter = async (pauseMs: number): Promise<number> => {
    await ask(prompt(9), pauseMs)
    return paused()[0]!.returnRate
  }
  await run(async () => {
    await use('look', 0)
    for (let round = 0; round < 8; round++) {
      await use('build', 200, 'look')
      await use('look', 30_000, 'build')
    }
    t.match(await programs(), [{ id: 'a', tool: 'look' }])
    const soon = await rateAfter(50)
    await use('build', 150, 'look')
    t.match(await programs(), [{ tool: 'build' }])
    const late = await rateAfter(50)
    t.ok(soon > 5 * late, `after look ${soon}, after build ${late}`)
    // Another program has the same tools.
    await ask(prompt(1), 0, { session: 'b' })
    const unknown = await ask(prompt(9), 50).then(() => paused().at(-1)!.returnRate)
    await ask([], 0, { ...asks('use build'), session: 'c' })
    const known = await ask(prompt(9), 50).then(() => paused().at(-1)!.returnRate)
    t.ok(known < 0.7 * unknown, `${known} of ${unknown}`)
    const long = 'x'.repeat(129)
    await use('look', 0)
    await use(long, 100, long)
    t.match(await programs(), [{ id: 'a', tool: undefined }], 'so long a name is not remembered')
  })
})

t.test('a request whose answer calls a known tool begins a program', async (t) => {
  const { ask, programs, paused, run } = agent()
  const use = async (tool: string, more: Partial<GenerateRequest> = {}, before?: string) => {
    await ask([], 100, { ...asks(`use ${tool}`, before), ...more })
  }
  await run(async () => {
    await use('look')
    t.same(await programs(), [], 'nobody has had a result of it')
    await use('look', { session: 'a' })
    await use('look', { session: 'a' }, 'look')
    await use('look', { tenant: 'other' })
    await use('build')
    await use('look', { cache: false })
    t.match(await programs(), [{ id: 'a' }], 'others know no such tool, or keep nothing')
    await use('look')
    const [begun] = await programs()
    t.match(begun, { calls: 1, open: 0, pauses: 0, tool: 'look' })
    t.ok(begun!.keptTokens > 16, 'its slot is kept from its first call on')
    t.ok(begun!.promptTokens > 0 && begun!.generatedTokens === answerTo('use look').length)
    await ask(prompt(9))
    t.ok(paused().some(({ program }) => program.id === begun!.id))
  })
})

t.test('a session takes over the program that its first request has begun', async (t) => {
  const { ask, programs, paused, run } = agent()
  await run(async () => {
    await ask([], 0, { ...asks('use look'), session: 'a' })
    await ask([], 100, { ...asks('use look', 'look'), session: 'a' })
    const asked = [...prompt(5, 20), ...encode('use look. assistant\n')]
    const first = await ask(asked, 100, { maxTokens: answerTo('use look').length })
    t.match((await programs())[0], { id: 'request 2', calls: 1, tool: 'look' })
    const more = { session: 'request 2' }
    const second = await ask([...first, ...prompt(6, 9)], 100, more)
    await ask([...second, ...prompt(7, 9)], 100, more)
    await ask([...first, ...prompt(8, 9)], 100, { session: 'b' })
    await ask(prompt(9))
    const list = (await programs()).map(({ id, calls, pauses }) => [id, calls, pauses])
    t.same(list, [
      ['b', 1, 0],
      ['request 2', 3, 2],
      ['a', 2, 1],
    ])
    t.equal(new Set(paused().map(({ program }) => program)).size, 3, 'no other one is kept')
  })
})

t.test('an answer that only mentions a known tool begins no program', async (t) => {
  const { ask, programs, run } = agent()
  const begun = async (said: string): Promise<number> => {
    await ask([], 100, asks(`say ${said}`))
    return (await programs()).length - 1
  }
  await run(async () => {
    await ask([], 0, { ...asks('use Read'), session: 'a' })
    await ask([], 100, { ...asks('use Read', 'Read'), session: 'a' })
    for (const said of ['Read 1: the text', 'Read (or not)', '[Read](all of it)', 'Read']) {
      t.equal(await begun(said), 0, said)
    }
    const calls = [
      'Read\n{"a": 1}',
      'Read(a=1)',
      '[Read(a=1)]',
      '[TOOL_CALLS]Read',
      'function=Read',
    ]
    for (const [index, said] of calls.entries()) t.equal(await begun(said), index + 1, said)
  })
})

t.test('what a client tells of its return is a prior until then', async (t) => {
  const rates: Record<string, readonly number[]> = {}
  for (const retainMs of [undefined, 0, 600_000, 20_000]) {
    const { ask, programs, paused, run } = agent()
    await run(async () => {
      await ask(prompt(1), 0, retainMs === undefined ? { session: 'a' } : { retainMs })
      t.equal((await programs()).length, 1, 'it is a program')
      const seen: number[] = []
      for (const pauseMs of [50, 10_000, 30_000]) {
        await ask(prompt(9), pauseMs)
        seen.push(paused()[0]!.returnRate)
      }
      rates[String(retainMs)] = seen
    })
  }
  const { undefined: untold = [], 0: never = [], 600000: long = [], 20000: short = [] } = rates
  t.ok(never[0]! < 0.6 * untold[0]! && never[0]! > 0, 'one prior of several')
  t.ok(long[1]! > 1.3 * untold[1]!, `${long[1]} for ${untold[1]}`)
  t.ok(short[1]! > long[1]!)
  t.equal(short[2], untold[2], 'its time is over')
})

t.test('an id that two tenants choose names two programs', async (t) => {
  const { ask, programs, run } = agent()
  await run(async () => {
    const same = { id: 'mine', retainMs: 60_000 }
    await ask(prompt(1), 0, { ...same, tenant: 'a' })
    await ask(prompt(2), 10, { ...same, tenant: 'b' })
    t.match(
      (await programs()).map(({ id, tenant, calls }) => ({ id, tenant, calls })),
      [
        { id: 'mine', tenant: 'b', calls: 1 },
        { id: 'mine', tenant: 'a', calls: 1 },
      ],
    )
  })
})

t.test('a slot that can be restored is worth no more than that', async (t) => {
  const lossMs: number[] = []
  for (const cacheRamBytes of [0, 1e9]) {
    const { ask, paused, run } = agent(4, cacheRamBytes)
    await run(async () => {
      const text = await ask(prompt(1, 300), 0, { session: 'a' })
      await ask([...text, ...prompt(2, 9)], 50, { session: 'a' })
      await ask(prompt(9), 10)
      lossMs.push(paused()[0]!.lossMs)
    })
  }
  const [computed, restored] = lossMs
  t.ok(restored! > 0 && restored! < computed!, `${restored} ms in place of ${computed}`)
})

t.test('the slot of a program that is about to return is the last to be lost', async (t) => {
  const { ask, programs, run } = agent(2)
  await run(async () => {
    const text = await ask(prompt(1, 100), 0, { session: 'agent' })
    await ask([...text, ...prompt(2, 9)], 50, { session: 'agent' })
    for (let other = 0; other < 6; other++) await ask(prompt(20 + other, 120), 10)
    t.match(await programs(), [{ id: 'agent', keptTokens: 118 }])
  })
})

t.test('a program that pauses for long keeps its slot while another slot is empty', async (t) => {
  const { ask, programs, run } = agent(2)
  await run(async () => {
    await ask(prompt(1, 400), 0, { session: 'one' })
    await ask([...prompt(1, 32), ...prompt(2)], 120_000)
    t.match(await programs(), [{ id: 'one', keptTokens: 404 }])
  })
})

t.test('a slot is worth what no other slot has', async (t) => {
  const { ask, paused, run } = agent()
  await run(async () => {
    await ask(prompt(1, 200), 0, { session: 'alone' })
    for (const [at, session] of ['one', 'other'].entries()) {
      await ask([...prompt(2, 200), ...prompt(3 + at, 40)], 0, { session })
    }
    await ask(prompt(9), 10)
    const [alone, one] = paused().map(({ lossMs }) => lossMs)
    t.ok(one! > 0 && one! < alone! / 2, `${one} ms behind the shared 200 tokens, ${alone} for 200`)
  })
})

t.test('what another slot has too is not lost with a slot', async (t) => {
  const { ask, programs, run } = agent(3)
  const shared = prompt(1, 200)
  await run(async () => {
    await ask(prompt(2, 100), 0, { session: 'alone' })
    for (const [at, session] of ['one', 'other'].entries()) {
      await ask([...shared, ...prompt(3 + at, 40)], 0, { session })
    }
    await ask(prompt(9, 120), 10)
    const kept = new Map((await programs()).map(({ id, keptTokens }) => [id, keptTokens]))
    t.equal(kept.get('alone'), 104, 'all 100 would be computed again')
    t.equal(kept.get('one'), 0, 'what is not copied from the other is 40')
    t.equal(kept.get('other'), 244)
  })
})
