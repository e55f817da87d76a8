import t from 'tap'
import { candidates, paretoFront, type SimulationResult, withLimits } from '@cllm/bench'
import { batchings, createPolicy, orders, policyNames } from '@cllm/scheduler'

const result = (policy: string, share: number, speed: number, ttft: number, itl: number) =>
  ({
    policy,
    policyOptions: {},
    summary: {
      goodput: { share },
      outputTokensPerSecond: speed,
      ttftMs: { p99: ttft },
      itlMs: { p99: itl },
    },
  }) as unknown as SimulationResult

t.test('the front has who is best at something, the best by goodput first', (t) => {
  const front = paretoFront([
    result('slow', 0.5, 100, 900, 50),
    result('good', 0.9, 100, 800, 50),
    result('smooth', 0.6, 90, 950, 10),
    result('twin', 0.9, 100, 800, 50),
    result('as good as', 0.9, 100.1, 800, 50),
  ])
  t.same(
    front.map(({ policy }) => policy),
    ['good', 'as good as', 'smooth'],
  )
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
  const more = { batchings: [...batchings, { name: 'mine' }], orders: [...orders, { name: 'own' }] }
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
  t.same(limited('adaptive+fcfs', { slo: { itl: 5 } }, { itl: 30 }), { slo: { itl: 5 } })
  t.same(limited('adaptive+fcfs', {}, { e2e: 9000 }), {})
  t.same(limited('chunked+fcfs', {}, { itl: 30 }), {})
  t.same(limited('of-a-plugin', {}, { itl: 30 }), {})
  t.end()
})
