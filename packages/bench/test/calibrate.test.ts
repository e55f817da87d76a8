import { fitCosts, planSteps } from '@cllm/bench'
import { passMachine, type PassCosts } from '@cllm/simulation'
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
