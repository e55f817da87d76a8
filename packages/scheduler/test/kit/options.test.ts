import type { SequenceView } from '@cllm/core'
import { createPolicy, limitsOf } from '@cllm/scheduler'
import t from 'tap'

const request = (tenant: string, priority: number): SequenceView => {
  return { tenant, priority } as Partial<SequenceView> as SequenceView
}

t.test("a tenant's limits come before those of the highest priority reached", async (t) => {
  const limits = limitsOf({
    ttft: 1000,
    itl: 100,
    tenants: { gold: { ttft: 200 } },
    priorities: { 10: { itl: 20 }, 5: { itl: 50, ttft: 500 } },
  })
  t.same(limits(request('any', 0)), { ttft: 1000, itl: 100 })
  t.same(limits(request('any', 5)), { ttft: 500, itl: 50 })
  t.same(limits(request('any', 9)), { ttft: 500, itl: 50 })
  t.same(limits(request('any', 12)), { ttft: 500, itl: 20 })
  t.same(limits(request('gold', 12)), { ttft: 200, itl: 20 })
  t.same(limits(request('constructor', 0)), { ttft: 1000, itl: 100 })
  t.same(limitsOf({})(request('any', 0)), {})
})

t.test('limits that make no sense are refused', async (t) => {
  const slos = [{ itl: 0 }, { ttft: '1s' }, { tpot: 5 }, { priorities: { high: { itl: 5 } } }]
  for (const slo of slos) {
    t.throws(() => createPolicy('adaptive+fcfs', { slo }), { code: 'invalid_policy' })
  }
})
