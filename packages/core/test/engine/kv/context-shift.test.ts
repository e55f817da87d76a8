import t from 'tap'
import { runUntilIdle } from '@cllm/testing'
import { collect, expectedTokens, greedy, isDone, promptOf, rig } from '../../rig.js'

const settings = { contextShift: true, contextSize: 64, slots: 2, batchSize: 64 } as const
const shifting = (keep: number, count: number, family = 0) => ({
  ...greedy(promptOf(20, family), count),
  contextShift: { keep },
})

t.test('a request goes on when its slot is full, and shares nothing from then on', async (t) => {
  const made = rig({ ...settings, options: { cacheRamBytes: 1e6, speculative: 'ngram' } })
  const { backend, client, run, clock } = made
  const expected = expectedTokens(backend, promptOf(20), 300)
  const { tokens, end } = await made.ask(shifting(6, 300))
  t.same(tokens, expected, 'the fake remembers what it was computed with')
  t.match(end, { reason: 'length', usage: { generatedTokens: 300, cachedTokens: 0 } })
  const shifts = backend.operations.filter(({ type }) => type === 'shift')
  t.equal(shifts.length, 9, '36 tokens fit at first, then 29 after each shift')
  t.same(shifts[0], { type: 'shift', slot: 0, keep: 6, discard: 29 })
  t.same((await made.ask(greedy(promptOf(20), 2))).end?.usage.cachedTokens, 0)

  // While it runs, too; and beside one that ends when its slot is full.
  const long = collect(client.submit(shifting(-1, 200, 1)))
  await runUntilIdle(clock, clock.now() + 900)
  t.ok(backend.operations.some((one) => one.type === 'shift' && one.keep === 20))
  const other = collect(client.submit({ ...shifting(0, 200, 1), contextShift: false }))
  const [first, second] = await run(Promise.all([long, other]))
  t.same(first.tokens, expectedTokens(backend, promptOf(20, 1), 200))
  t.match(second.end, { reason: 'length', usage: { generatedTokens: 45, cachedTokens: 0 } })
  await isDone(t, made)
})

t.test('an engine that continues it drops the same tokens', async (t) => {
  for (const done of [10, 44, 45, 100, 299]) {
    const made = rig(settings)
    const expected = expectedTokens(made.backend, promptOf(20), 300)
    const continued = { tokens: expected.slice(0, done), elapsedMs: 5 }
    const { tokens, end } = await made.ask({ ...shifting(6, 300), continued })
    t.same(tokens, expected.slice(done))
    t.equal(end?.usage.generatedTokens, 300)
    const lengths = made.backend.operations.flatMap((one) => (one.type === 'shift' ? [one] : []))
    t.ok(lengths.length >= 8 && lengths.every(({ keep, discard }) => keep + discard === 35))
    await isDone(t, made)
  }
})

t.test('it is refused where it cannot be, or for an engine whose option is off', async (t) => {
  const plain = rig({ contextSize: 64 })
  t.match((await plain.ask(shifting(0, 100))).error, {
    code: 'unsupported',
    details: { capability: 'contextShift' },
  })
  t.equal((await plain.ask(greedy(promptOf(20), 100))).tokens.length, 45)
  const made = rig({ ...settings, options: { contextShift: true } })
  t.equal((await made.ask(greedy(promptOf(20), 100))).tokens.length, 100, 'as the option says')
  const cases: [unknown, RegExp][] = [
    [{ keep: -2 }, /contextShift\.keep/],
    [true, /false or an object/],
  ]
  for (const [contextShift, message] of cases) {
    const request = { ...greedy([5], 1), contextShift: contextShift as false }
    t.match((await made.ask(request)).error, { code: 'invalid_request', message })
  }
  const scored = { ...shifting(0, 1), promptLogprobs: 1 }
  t.match((await made.ask(scored)).error?.message, /none with promptLogprobs/)
  // All is kept but what lets it go on.
  const { tokens } = await made.ask(shifting(1000, 60))
  t.same(tokens, expectedTokens(made.backend, promptOf(20), 60))
  await isDone(t, made)
})
