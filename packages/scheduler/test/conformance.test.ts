import { testPolicy } from '@cllm/core/testing'
import {
  batchingNames,
  createPolicy,
  defaultPatience,
  orderNames,
  overtakingBound,
} from '@cllm/scheduler'
import t from 'tap'

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
  // a fifth of a decode step, waiting for those who come back
  adaptive: 250,
}

for (const [row, batching] of batchingNames.entries()) {
  for (const [column, order] of orderNames.entries()) {
    const isFirst = order === 'fcfs'
    const patience = isFirst ? 0 : 300
    const options = isFirst ? {} : { patience, ...lively[order] }
    const claims = {
      // every batching and every order thoroughly, every pair of them a little
      runs: column % batchingNames.length === row ? 100 : 25,
      maxIdleMs: maxIdleMs[batching] ?? 0,
      maxOvertaking: isFirst
        ? 0
        : (ahead: number, limits: Parameters<typeof overtakingBound>[1]) =>
            overtakingBound(ahead, limits, patience),
    }
    await testPolicy(t, () => createPolicy(`${batching}+${order}`, options), claims)
  }
}

for (const order of orderNames) {
  const claims = {
    runs: 25,
    maxOvertaking: (ahead: number, limits: Parameters<typeof overtakingBound>[1]) =>
      overtakingBound(ahead, limits, defaultPatience),
  }
  if (order !== 'fcfs') await testPolicy(t, () => createPolicy(`continuous+${order}`), claims)
}
