import {
  candidates,
  paretoFront,
  policyYaml,
  ranked,
  type SimulationResult,
  winnerOf,
  withLimits,
} from '@cllm/bench'
import { batchings, createPolicy, orders, policyNames } from '@cllm/scheduler'
import t from 'tap'

const result = (
  policy: string,
  share: number,
  speed: number,
  ttft: number,
  itl: number,
  seed = 1,
) =>
  ({
    policy,
    seed,
    policyOptions: {},
    summary: {
      goodput: { share },
      outputTokensPerSecond: speed,
      ttftMs: { p99: ttft },
      itlMs: { p99: itl },
    },
  }) as unknown as SimulationResult

/** Each policy with the seeds of its results. */
const named = (policies: readonly (readonly SimulationResult[])[]) =>
  policies.map((own) => [own[0]?.policy, ...own.map(({ seed }) => seed)].join(' '))

t.test('the front has who is best at something, the best by goodput first', (t) => {
  const front = paretoFront([
    result('slow', 0.5, 100, 900, 50),
    result('good', 0.9, 100, 800, 50),
    result('smooth', 0.6, 90, 950, 10),
    result('twin', 0.9, 100, 800, 50),
    result('as good as', 0.9, 100.1, 800, 50),
    result('late', 0.4, 100, 999, 1),
  ])
  t.same(named(front), ['good 1', 'as good as 1', 'smooth 1'])
  t.end()
})

t.test('nearly equal policies that beat each other in a circle leave one', (t) => {
  const front = paretoFront([
    result('one', 1, 100, 100, 0),
    result('two', 0.994, 100.4, 99.55, 0),
    result('three', 0.998, 99.8, 99.1, 0),
  ])
  t.equal(named(front)[0], 'one 1')
  t.end()
})

t.test('policies are ranked by the mean over their seeds', (t) => {
  const of = (policy: string, speed: number, ttft: number, ...shares: readonly number[]) =>
    shares.map((share, at) => result(policy, share, speed, ttft, 50, at + 1))
  const all = [
    // Best with its first seed only.
    ...of('lucky', 100, 500, 1, 0.5, 0.5),
    ...of('steady', 100, 500, 0.75, 0.75, 0.75),
    ...of('quick', 100, 300, 0.5, 0.75, 1),
    ...of('twin', 100, 300, 0.5, 0.75, 1),
    // Fast, but its mean is below half of the best one's.
    ...of('wrong', 500, 500, 0.5, 0.25, 0.25),
  ]
  const order = ['quick 1 2 3', 'steady 1 2 3', 'lucky 1 2 3', 'wrong 1 2 3']
  t.same(named(ranked(all)), order)
  t.same(named(paretoFront(all)), ['quick 1 2 3'])
  const first = all.filter(({ seed }) => seed === 1)
  t.equal(named(ranked(first))[0], 'lucky 1')
  const { ttftMs: _, ...summary } = all[0]!.summary
  const silent = ranked([...of('silent', 100, 1, 0.8), { ...all[0]!, policy: 'mute', summary }])
  t.same(named(silent), ['mute 1', 'silent 1'], 'without a TTFT by goodput alone')
  t.same(paretoFront([]), [])
  t.end()
})

t.test('the winner is the best confirmed policy, else the best simulated one', (t) => {
  const front = [result('a', 0.9, 100, 500, 50), result('b', 0.8, 100, 500, 50)]
  const measured = (name: string, goodput: number, ttftP99Ms: number) => {
    return { name, goodput, ttftP99Ms, itlP99Ms: 10 }
  }
  t.equal(winnerOf(front, [])?.policy, 'a')
  t.equal(winnerOf(front, [measured('a', 0.5, 10), measured('b', 0.6, 20)])?.policy, 'b')
  t.equal(winnerOf(front, [measured('a', 0.6, 30), measured('b', 0.6, 20)])?.policy, 'b')
  t.equal(winnerOf(front, [measured('a', 0, NaN), measured('b', 0, 20)])?.policy, 'b')
  t.equal(winnerOf([], []), undefined)
  t.end()
})

t.test('a configuration has the cells of its simulation', (t) => {
  const found = { ...result('adaptive+fcfs', 1, 1, 1, 1), policyOptions: {}, kvTokens: 6000 }
  t.match(policyYaml(found, []), '  kv_tokens: 6000\n')
  t.end()
})

t.test('every candidate is a policy', (t) => {
  const all = candidates({ itl: 100 }, 512, { batchings, orders })
  for (const { policy, policyOptions } of all) t.ok(createPolicy(policy, policyOptions))
  const names = new Set(all.map(({ policy }) => policy))
  t.equal(names.size, policyNames.filter((name) => !name.endsWith('random')).length)
  const adaptive = all.filter(({ policy }) => policy === 'adaptive+fcfs')
  t.same(
    adaptive.map(({ policyOptions }) => policyOptions),
    [{ slo: { itl: 100 } }, {}],
    'with the limits and without',
  )
  t.notOk(all.some(({ policyOptions }) => policyOptions.tokenBudget === 1024))
  const more = {
    batchings: [...batchings, { ...batchings[0]!, name: 'mine' }],
    orders: [...orders, { ...orders[0]!, name: 'own' }],
  }
  const added = candidates({}, 512, more).map(({ policy }) => policy)
  for (const name of ['mine+fcfs', 'mine+own', 'adaptive+own']) t.ok(added.includes(name), name)
  t.end()
})

t.test('policies that keep limits get those of the goodput', (t) => {
  const limited = (policy: string, options: object, slo: object) =>
    withLimits(policy, { ...options }, slo, { batchings, orders })
  t.same(limited('adaptive+sjf', { aging: 1 }, { ttft: 300, itl: 30, e2e: 9000 }), {
    aging: 1,
    slo: { ttft: 300, itl: 30 },
  })
  t.same(limited('adaptive+fcfs', {}, { tpot: 40 }), { slo: { itl: 40 } })
  t.same(limited('adaptive+fcfs', {}, { itl: 500, tpot: 100 }), { slo: { itl: 100 } })
  t.same(limited('adaptive+fcfs', {}, { itl: 50, tpot: 100 }), { slo: { itl: 50 } })
  t.same(limited('adaptive+fcfs', { slo: { itl: 5 } }, { itl: 30 }), { slo: { itl: 5 } })
  t.same(limited('adaptive+fcfs', {}, { e2e: 9000 }), {})
  t.same(limited('chunked+fcfs', {}, { itl: 30 }), {})
  t.same(limited('of-a-plugin', {}, { itl: 30 }), {})
  t.end()
})
