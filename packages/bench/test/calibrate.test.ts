import { type SimulationResult, candidates, fitCosts, paretoFront, planSteps } from '@cllm/bench'
import { batchings, createPolicy, orders, policyNames } from '@cllm/scheduler'
import { type PassCosts, passMachine } from '@cllm/simulation'
import t from 'tap'

const costs: PassCosts = {
  decode: { alone: 14, base: 12, each: 4, read: 0.004 },
  prefill: { base: 9, sequence: 5, each: 2.5, pair: 0.001, lonePair: 0.005 },
  copy: { base: 5, each: 0.02 },
  loop: { base: 0.3, each: 0.1 },
}
const tile = 64
const limits = { slots: 8, contextSize: 2048, batchSize: 512 }

t.test('the plan tells the costs of any machine apart', (t) => {
  const alone = { ...costs, loop: { base: 0, each: 0 } }
  const { stepMs } = passMachine(alone, { name: '', about: '', chunkMultiple: tile })
  const measured = planSteps(limits).map((step) => ({ ...step, durationMs: stepMs(step.shares) }))
  const copies = [0, 100, 1000].map((tokens) => [tokens, 5 + 0.02 * tokens] as const)
  const fitted = fitCosts(measured, copies, tile)
  const close = (value: number, wanted: number) =>
    t.ok(Math.abs(value / wanted - 1) < 0.1, `${value}, expected about ${wanted}`)
  for (const part of ['decode', 'prefill', 'copy'] as const) {
    for (const [name, value] of Object.entries(costs[part])) {
      close((fitted.costs[part] as Record<string, number>)[name] ?? NaN, value)
    }
  }
  t.ok(fitted.error.fitted.mean < 0.01)
  t.ok(fitted.error.heldOut.steps > 0)
  t.ok(fitted.error.heldOut.max < 0.01)
  t.end()
})

t.test('steps of the plan fit every backend', async (t) => {
  for (const slots of [1, 2, 40]) {
    for (const contextSize of [100, 256, 8192]) {
      for (const batchSize of [40, 512]) {
        for (const { shares } of planSteps({ slots, contextSize, batchSize })) {
          t.ok(shares.length <= slots)
          t.ok(shares.reduce((sum, { tokens }) => sum + tokens, 0) <= batchSize)
          t.ok(shares.every(({ tokens, context }) => tokens + context <= contextSize))
          t.equal(new Set(shares.map(({ slot }) => slot)).size, shares.length)
        }
      }
    }
  }
})

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
  t.ok(all.some(({ policyOptions }) => policyOptions.targetStepMs === 80))
  t.notOk(all.some(({ policyOptions }) => policyOptions.tokenBudget === 1024))
  const more = { batchings: [...batchings, { name: 'mine' }], orders: [...orders, { name: 'own' }] }
  const added = candidates({}, 512, more).map(({ policy }) => policy)
  for (const name of ['mine+fcfs', 'mine+own', 'adaptive+own']) t.ok(added.includes(name), name)
  t.end()
})
