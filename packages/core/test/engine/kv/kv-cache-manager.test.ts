import type { BatchItem, Plan, TokenId } from '@cllm/core'
import { runUntilIdle, firstComeFirstServed } from '@cllm/testing'
import t, { type Test } from 'tap'
import {
  collect,
  expectedTokens,
  greedy,
  leftovers,
  nothingLeft,
  policyOf,
  promptOf,
  type Rig,
  rig,
  type RigOptions,
  WatchedBackend,
} from '../../rig.js'

/** Runs one request, checks its tokens, and says what it found and which calls that took. */
async function request(
  t: Test,
  made: Rig,
  prompt: readonly TokenId[],
  change: { readonly cache?: boolean; readonly maxTokens?: number; readonly slot?: number } = {},
) {
  const { maxTokens = 3, ...rest } = change
  const before = { operations: made.backend.operations.length, steps: made.backend.steps.length }
  const answer = await made.run(
    collect(made.client.submit({ ...greedy(prompt, maxTokens), ...rest })),
  )
  t.same(
    answer.tokens,
    expectedTokens(made.backend, prompt, maxTokens),
    'the answer is the right one',
  )
  const [first] = made.backend.steps.slice(before.steps)
  const own = first?.batch.at(-1)
  return {
    cached: answer.end?.usage.cachedTokens,
    slot: own?.slot,
    computed: own?.tokens.length,
    calls: made.backend.operations.slice(before.operations),
  }
}

/** An engine in which one request runs on and on in slot 0, and what it is. */
async function besides(prompt: readonly TokenId[], options: RigOptions = {}) {
  const made = rig({ contextSize: 1000, ...options })
  const steady = collect(
    made.client.submit({ ...greedy(prompt, 900 - prompt.length), id: 'steady' }),
  )
  await runUntilIdle(made.clock, 1015)
  return { made, steady }
}

async function finish(t: Test, made: Rig): Promise<void> {
  await runUntilIdle(made.clock)
  t.match(leftovers(made), nothingLeft)
}

t.test('a request gets the slot that it asks for, where that is idle', async (t) => {
  const made = rig({ contextSize: 1000 })
  const prompt = promptOf(40)
  t.equal((await request(t, made, prompt, { slot: 2 })).slot, 2)
  const again = await request(t, made, prompt, { slot: 1 })
  t.equal(again.slot, 1)
  t.ok((again.cached ?? 0) > 30, 'with a copy of what another slot holds')
  t.equal((await request(t, made, promptOf(40, 7), { slot: 2 })).slot, 2, 'which loses what it had')
  await finish(t, made)
  const { made: busy, steady } = await besides(promptOf(20))
  const other = await busy.run(
    collect(busy.client.submit({ ...greedy(promptOf(30, 3), 3), slot: 0 })),
  )
  t.equal(other.tokens.length, 3, 'a busy one is not waited for')
  busy.client.cancel('steady')
  await busy.run(steady.catch(() => {}))
})

t.test('a finished request leaves its tokens for the next', async (t) => {
  const made = rig({ slots: 2 })
  const prompt = promptOf(40)
  t.match(await request(t, made, prompt), { cached: 0, slot: 0, computed: 40, calls: [] })
  const answer = expectedTokens(made.backend, prompt, 3)
  const next = [...prompt, ...answer, ...promptOf(5, 1)]
  t.match(
    await request(t, made, next),
    {
      cached: 42,
      slot: 0,
      computed: 6,
      calls: [{ type: 'truncate', slot: 0, length: 42 }],
    },
    'all but the last token drawn, which was never computed',
  )
  t.match(await request(t, made, next), { cached: 47, computed: 1 }, 'all but the last one')
  const turned = [...prompt.slice(0, 30), 99, ...promptOf(30, 2)]
  t.match(
    await request(t, made, turned),
    {
      cached: 30,
      slot: 1,
      computed: 31,
      calls: [{ type: 'copyPrefix', from: 0, to: 1, length: 30 }],
    },
    'of a program, which goes on with its own, a copy',
  )
  t.equal(made.engine.statistics().cachedTokens, 42 + 47 + 30)
  await finish(t, made)
})

t.test('a slot is not given up for a few tokens', async (t) => {
  const made = rig({ slots: 2 })
  const beginning = promptOf(15)
  await request(t, made, [...beginning, ...promptOf(20, 1)])
  t.match(
    await request(t, made, [...beginning, ...promptOf(20, 2)]),
    {
      cached: 0,
      slot: 1,
      computed: 35,
      calls: [],
    },
    '15 shared tokens are not worth it, and the prompt is computed in one step',
  )
  t.match(
    await request(t, made, [...beginning, ...promptOf(20, 3)]),
    {
      cached: 15,
      slot: 0,
      calls: [{ type: 'truncate', slot: 0, length: 15 }],
    },
    'but are kept where the slot is lost anyway',
  )
  const sixteen = [...promptOf(16, 4)]
  await request(t, made, [...sixteen, ...promptOf(20, 5)])
  t.match(await request(t, made, [...sixteen, ...promptOf(20, 6)]), { cached: 16, slot: 1 })
  await finish(t, made)
})

t.test('the least recently used slot is lost first', async (t) => {
  const made = rig({ slots: 3 })
  for (const family of [1, 2, 3]) {
    t.equal((await request(t, made, promptOf(30, family))).slot, family - 1, 'empty ones first')
  }
  t.match(await request(t, made, [...promptOf(30, 1), 7]), { slot: 0, cached: 30 })
  t.match(await request(t, made, promptOf(30, 4)), {
    slot: 1,
    cached: 0,
    calls: [{ type: 'release', slot: 1 }],
  })
  t.match(await request(t, made, promptOf(30, 5)), { slot: 2, calls: [{ type: 'release' }] })
  t.match(await request(t, made, promptOf(30, 6)), { slot: 0, calls: [{ type: 'release' }] })
  t.match(await request(t, made, promptOf(30, 4)), { slot: 1, cached: 29 })
  await finish(t, made)
})

t.test('the prefix of a running request is copied', async (t) => {
  const prompt = promptOf(100)
  const { made, steady } = await besides(prompt, { slots: 3 })
  t.match(await request(t, made, [...prompt.slice(0, 80), 9]), {
    cached: 80,
    slot: 1,
    computed: 1,
    calls: [{ type: 'copyPrefix', from: 0, to: 1, length: 80 }],
  })
  t.match(
    await request(t, made, [...prompt.slice(0, 76), 9]),
    {
      cached: 76,
      slot: 1,
      calls: [{ type: 'truncate', slot: 1, length: 76 }],
    },
    'an idle slot with as much is better',
  )
  made.client.cancel('steady')
  t.match((await made.run(steady)).error, { code: 'cancelled' })

  const other = await besides(prompt, { slots: 2 })
  t.match(await request(t, other.made, [...promptOf(20, 8), ...prompt]), { cached: 0 })
  t.match(
    await request(t, other.made, [...prompt, 9]),
    {
      cached: 100,
      slot: 1,
      calls: [{ type: 'copyPrefix', from: 0, to: 1, length: 100 }],
    },
    'into a slot that is lost for it',
  )
  t.equal((await other.made.run(other.steady)).tokens.length, 800)
  await finish(t, other.made)
  await finish(t, made)
})

t.test('a copy is made where it is cheaper than computing, by what both have cost', async (t) => {
  const stepMs = (batch: readonly BatchItem[]) =>
    10 + 2 * batch.reduce((sum, { tokens }) => sum + tokens.length, 0)
  for (const [copyMs, cached] of [
    [20, 64],
    [2000, 0],
  ] as const) {
    const made = rig({ slots: 4, contextSize: 2000, stepMs, copyMs: () => copyMs })
    const prompt = promptOf(150)
    const steady = collect(made.client.submit({ ...greedy(prompt, 1800), id: 'steady' }))
    await runUntilIdle(made.clock, 1400)
    const found: (number | undefined)[] = []
    for (let family = 1; family < 12; family++) {
      const branch = [...prompt.slice(0, 64), ...promptOf(9 * family, family)]
      found.push((await request(t, made, branch, { cache: true })).cached)
      // what it leaves behind is to be copied by nobody
      await request(t, made, promptOf(190, 40 + family))
      await request(t, made, promptOf(190, 60 + family))
      await request(t, made, promptOf(190, 80 + family))
    }
    t.equal(found.at(-1), cached, `a copy takes ${copyMs} ms: ${found.join()}`)
    made.client.cancel('steady')
    await made.run(steady)
    await finish(t, made)
  }
})

t.test('whoever begins with what is being computed waits for it', async (t) => {
  const made = rig({ slots: 4, batchSize: 40 })
  const prefix = promptOf(150)
  const prompts = [1, 2, 3, 4, 5, 6].map((family) => [...prefix, ...promptOf(9, family)])
  const answers = await made.run(
    Promise.all(prompts.map((prompt) => collect(made.client.submit(greedy(prompt, 3))))),
  )
  for (const [index, { tokens, end }] of answers.entries()) {
    t.same(tokens, expectedTokens(made.backend, prompts[index] ?? [], 3))
    t.equal(end?.usage.cachedTokens, index === 0 ? 0 : 150)
  }
  const computed = made.backend.steps.flatMap(({ batch }) =>
    batch.map((item) => item.tokens.length),
  )
  const decodes = 6 * 2
  t.equal(
    computed.reduce((sum, count) => sum + count, 0) - decodes,
    159 + 5 * 9,
    'the prefix is computed once',
  )
  await finish(t, made)
})

t.test('a long conversation is not thrown away for its beginning', async (t) => {
  const made = rig({ slots: 2, contextSize: 400 })
  const conversation = promptOf(200)
  await request(t, made, conversation)
  const branch = [...conversation.slice(0, 70), ...promptOf(20, 1)]
  t.match(await request(t, made, branch), {
    cached: 70,
    slot: 1,
    calls: [{ type: 'copyPrefix', from: 0, to: 1, length: 70 }],
  })
  t.match(await request(t, made, [...conversation, 9]), { cached: 200, slot: 0 })
  const other = [...conversation.slice(0, 66), ...promptOf(20, 2)]
  t.match(await request(t, made, other), { cached: 66, calls: [{ type: 'truncate' }] })
  await finish(t, made)

  const full = rig({ slots: 1, contextSize: 400 })
  await request(t, full, conversation)
  t.match(await request(t, full, branch), { cached: 70, slot: 0 }, 'unless no slot is empty')
  await finish(t, full)

  const half = rig({ slots: 2, contextSize: 400 })
  await request(t, half, conversation)
  const long = [...conversation.slice(0, 150), 9]
  t.match(await request(t, half, long), { cached: 150, slot: 1 }, 'nor a part of it')
  t.match(await request(t, half, [...conversation, 9]), { cached: 200, slot: 0 })
  await finish(t, half)
})

t.test('cache: false takes nothing and leaves nothing', async (t) => {
  const made = rig({ slots: 1 })
  const prompt = promptOf(100)
  await request(t, made, prompt)
  t.match(await request(t, made, prompt, { cache: false }), {
    cached: 0,
    computed: 100,
    calls: [
      { type: 'release', slot: 0 },
      { type: 'release', slot: 0 },
    ],
  })
  t.match(await request(t, made, prompt), { cached: 0 })
  await finish(t, made)
  const { made: busy } = await besides(prompt, { slots: 2 })
  const alone = await request(t, busy, prompt, { cache: false })
  t.match(alone, { cached: 0, calls: [{ type: 'release', slot: 1 }] })
  await finish(t, busy)
})

t.test('a backend that keeps multiples only', async (t) => {
  const made = rig({ slots: 1, keepMultipleOf: 16 })
  const prompt = promptOf(100)
  await request(t, made, prompt)
  const branch = [...prompt.slice(0, 60), ...promptOf(20, 1)]
  t.match(
    await request(t, made, branch),
    {
      cached: 48,
      computed: 20,
      calls: [{ type: 'truncate', slot: 0, length: 60 }],
    },
    'the plan counted on 60; what is missing comes with the next step',
  )
  await finish(t, made)
  const { made: busy } = await besides(prompt, { slots: 2, keepMultipleOf: 128 })
  t.match(
    await request(t, busy, [...prompt, 1]),
    {
      cached: 0,
      calls: [{ type: 'copyPrefix', length: 100 }],
    },
    'or nothing at all',
  )
  t.match(await request(t, busy, promptOf(30, 3)), { cached: 0 })
  await finish(t, busy)
})

t.test('a preempted request finds its own tokens, which is no hit', async (t) => {
  let step = 0
  const seen: { id: string; remaining: number; computed: number }[] = []
  const policy = policyOf((state): Plan => {
    step++
    for (const view of state.waiting) {
      if (view.state !== 'preempted') continue
      seen.push({ id: view.id, remaining: view.remainingTokens, computed: view.computedTokens })
    }
    if (step === 5)
      return {
        ...firstComeFirstServed.plan(state),
        preempt: ['moved'],
        run: [{ id: 'steady', tokens: 1 }],
      }
    return firstComeFirstServed.plan(state)
  })
  const made = rig({ slots: 2, policy })
  const prompt = promptOf(40)
  const first = await made.ask(greedy(prompt, 1))
  t.equal(first.end?.usage.cachedTokens, 0)
  const steady = collect(made.client.submit({ ...greedy(promptOf(9, 1), 40), id: 'steady' }))
  const moved = collect(made.client.submit({ ...greedy([...prompt, 9], 20), id: 'moved' }))
  const answers = await made.run(Promise.all([steady, moved]))
  t.same(answers[1]?.tokens, expectedTokens(made.backend, [...prompt, 9], 20))
  t.match(seen, [{ id: 'moved', remaining: 1, computed: 0 }])
  t.equal(answers[1]?.end?.usage.cachedTokens, 40)
  t.match(made.engine.statistics(), { cachedTokens: 40, preemptions: 1 })
  await finish(t, made)
})

t.test('the backend says which free slot it likes', async (t) => {
  const asked: [readonly number[], readonly number[]][] = []
  class Last extends WatchedBackend {
    override preferSlot(free: readonly number[], used: readonly number[]): number {
      asked.push([[...free], [...used]])
      return free.at(-1) ?? super.preferSlot(free, used)
    }
  }
  const made = rig({ slots: 3, backend: (given) => new Last(given) })
  const { client, clock, run } = made
  const first = collect(client.submit(greedy(promptOf(20), 9)))
  await runUntilIdle(clock, 1015)
  await run(Promise.all([first, collect(client.submit(greedy(promptOf(20, 1), 9)))]))
  t.same(asked, [
    [[0, 1, 2], []],
    [[0, 1], [2]],
  ])
  await request(t, made, promptOf(20, 2))
  t.same(
    asked.slice(-2),
    [
      [[0, 2, 1], []],
      [[0], []],
    ],
    'empty ones, then the least recently used; and which of the empty ones',
  )
  t.equal(made.engine.statistics().slots[0]?.tokens, 22, 'the empty one costs nobody anything')
  await finish(t, made)
})
