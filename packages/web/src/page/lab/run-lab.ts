import type { PolicySetting } from '@cllm/core'
import { createPolicy } from '@cllm/scheduler'
import { simulateLoad, type SimulatedAnswer, type SimulationReport } from '@cllm/simulation'
import type { LabJob } from './lab-job.js'
import { openJob } from './open-job.js'
import { OwnPolicies } from './own-order.js'

/** What a policy made of the load; times are milliseconds of simulated time. */
export type LabResult = PolicySetting &
  ReturnType<typeof summarize> &
  Pick<SimulationReport, 'utilization' | 'preemptions'>

/**
 * Runs a load through a policy, as a server's engine would, on simulated time. Throws what a policy
 * does wrong.
 *
 * @param opened - the job's, which takes a while to be read
 */
export async function runCandidate(
  job: LabJob,
  candidate: PolicySetting,
  opened = openJob(job),
): Promise<LabResult> {
  const { policy, options } = candidate
  const own = policy.endsWith('+own') ? new OwnPolicies(job.ownOrder) : undefined
  const { results, utilization, preemptions } = await simulateLoad({
    ...opened,
    policy: () => own?.create(policy, options) ?? createPolicy(policy, options),
    slots: job.slots,
  })
  if (own?.problem !== undefined) throw own.problem
  return { ...candidate, ...summarize(results), utilization, preemptions }
}

/** Of a list that is longer than the arguments of a call can be; 0 of none. */
const largest = (values: readonly number[]): number =>
  values.reduce((most, value) => Math.max(most, value), 0)

/** What a load's answers say of it. */
export function summarize(results: readonly SimulatedAnswer[]) {
  const good = results.filter(
    ({ error, tokenTimes }) => error === undefined && tokenTimes.length > 0,
  )
  const rising = (values: readonly number[]): number[] => values.toSorted((a, b) => a - b)
  const pauses = good.map(({ tokenTimes }) =>
    tokenTimes.slice(1).map((time, index) => time - (tokenTimes[index] ?? time)),
  )
  const ttftOf = ({ request, tokenTimes }: SimulatedAnswer): number =>
    (tokenTimes[0] ?? 0) - request.arrival
  const first = results.reduce((least, { request }) => Math.min(least, request.arrival), Infinity)
  const durationMs = largest(results.map(({ endedAt = first }) => endedAt - first))
  const tokens = good.reduce((sum, { tokenTimes }) => sum + tokenTimes.length, 0)
  return {
    /** Of the requests that ended well, rising. */
    ttfts: rising(good.map(ttftOf)),
    /** The longest pause between two tokens of each of them, rising. */
    longestPauses: rising(pauses.map(largest)),
    itls: rising(pauses.flat()),
    tokensPerSecond: durationMs === 0 ? 0 : (tokens / durationMs) * 1000,
    durationMs,
    /** Requests that ended with an error; those whose client left are none of them. */
    failed: results.filter(({ error }) => error !== undefined && error !== 'cancelled').length,
    /** The longest mean TTFT of a tenant over the shortest: 1 is even. */
    unevenness: unevenness(good, ttftOf),
  }
}

function unevenness(
  good: readonly SimulatedAnswer[],
  ttftOf: (answer: SimulatedAnswer) => number,
): number | undefined {
  const sums = new Map<string, { ms: number; count: number }>()
  for (const answer of good) {
    const { tenant = '' } = answer.request
    const sum = sums.get(tenant) ?? { ms: 0, count: 0 }
    sums.set(tenant, { ms: sum.ms + ttftOf(answer), count: sum.count + 1 })
  }
  const means = [...sums.values()].map(({ ms, count }) => ms / count)
  return means.length < 2 ? undefined : Math.max(...means) / Math.max(0.001, Math.min(...means))
}
