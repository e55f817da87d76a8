import { composePolicy } from '@cllm/core'
import { testBatching, testOrder, testPolicy } from '@cllm/testing'
import {
  batchings,
  chunked,
  createPolicy,
  defaultPatience,
  fcfs,
  orderNames,
  orders,
  overtakingBound,
  priority,
} from '@cllm/scheduler'
import t from 'tap'
import { failuresOf } from './failures-of.js'

type Limits = Parameters<typeof overtakingBound>[1]

const patience = 20
const bounded = (ahead: number, limits: Limits) => overtakingBound(ahead, limits, patience)

/** Options that make what is rare happen in small loads. */
const lively: Readonly<Record<string, object>> = {
  priority: { agingTokens: 100, preemptionThreshold: 2 },
  sjf: { aging: 0.5 },
  dlpm: { quantum: 50, weights: { a: 2 } },
  fair: { weights: { a: 3, b: 0.5 } },
  mlfq: { quantum: 8, levels: 4, preemptionLevels: 1 },
}

/** How long a batching leaves everything idle to wait for more requests. */
const maxIdleMs: Readonly<Record<string, number>> = {
  static: 100,
  window: 50,
  continuous: 0,
  chunked: 0,
  // a fifth of a decode step, waiting for clients that come back
  adaptive: 250,
}

t.test('every order with every batching keeps the bound on overtaking', async (t) => {
  for (const [column, order] of orders.entries()) {
    // every batching and every order thoroughly, every pair of them a little
    const thoroughly = batchings[column % batchings.length]?.name
    await testOrder(t, order, batchings, (batching) => ({
      runs: batching === thoroughly ? 30 : 8,
      maxPlanMs: batching === thoroughly ? 2 : Infinity,
      options: { patience, ...lively[order.name] },
      maxIdleMs: maxIdleMs[batching] ?? 0,
      maxOvertaking: order === fcfs ? 0 : bounded,
    }))
  }
})

for (const batching of batchings) {
  await testBatching(t, batching, [fcfs, priority], (order) => ({
    runs: 8,
    options: { patience },
    maxIdleMs: maxIdleMs[batching.name] ?? 0,
    maxOvertaking: order === 'fcfs' ? 0 : bounded,
  }))
}

for (const order of orderNames) {
  const maxOvertaking = (ahead: number, limits: Limits) =>
    overtakingBound(ahead, limits, defaultPatience)
  const claims = { runs: 12, maxOvertaking }
  if (order !== 'fcfs') await testPolicy(t, () => createPolicy(`continuous+${order}`), claims)
}

/** Each order without what bounds it. `fair` and `dlpm` bound themselves: a tenant gets its share. */
const unbounded: Readonly<Record<string, object>> = {
  priority: { agingTokens: 1e9, preemptionThreshold: null },
  sjf: { aging: 0 },
  hrrn: {},
  lpm: {},
  edf: { refuse: false },
  mlfq: { quantum: 8 },
  random: {},
}

t.test(
  'the suite finds an order that overtakes without bound, in random loads or in its own',
  async (t) => {
    const overtaking = /tokens of later requests were computed before/
    const inRandomLoads: string[] = []
    for (const [name, options] of Object.entries(unbounded)) {
      const order = orders.find((one) => one.name === name)!
      const given = { ...options, patience: 1e9 }
      const claims = { runs: 100, maxOvertaking: bounded, maxPlanMs: Infinity }
      const failures = await failuresOf(async (t) => {
        await testPolicy(t, () => composePolicy(chunked, order, given), claims)
      }, overtaking)
      t.match(failures.join('\n'), overtaking, name)
      if (failures.some((failure) => failure.startsWith('serves any load')))
        inRandomLoads.push(name)
    }
    t.same(inRandomLoads, ['priority', 'sjf', 'hrrn', 'edf', 'mlfq', 'random'])
  },
)
