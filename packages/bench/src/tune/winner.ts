import type { SimulationResult, SimulationSetup } from '../simulate/simulate-policy.js'
import { defined } from '@cllm/core'
import { cllmApi } from '../apis/apis.js'
import type { ModelHost, ModelSettings } from '../calibrate/model-host.js'
import { runLoad } from '../load/run-load.js'
import { agentFor } from '../load/load-options.js'
import type { RunRecord } from '../metrics/run-record.js'
import { summarize } from '../metrics/summarize.js'
import { nameOf } from '../simulate/simulation-report.js'
import { groupBy } from '../statistics/statistics.js'
import { firstRequests } from '../workload/work-item.js'

/** A policy's results: one for each seed. */
export type SeedResults = readonly SimulationResult[]

/** The mean over the seeds, which is infinite where one of them measured nothing. */
const mean = (of: (result: SimulationResult) => number) => (results: SeedResults) =>
  results.reduce((sum, result) => sum + of(result), 0) / results.length

const goodputOf = mean(({ summary }) => summary.goodput?.share ?? 0)
const ttftOf = mean(({ summary }) => summary.ttftMs?.p99 ?? Infinity)

/** The criteria for policies; higher is better. */
const objectives: readonly ((results: SeedResults) => number)[] = [
  goodputOf,
  mean(({ summary }) => summary.outputTokensPerSecond),
  (results) => -ttftOf(results),
  mean(({ summary }) => -(summary.itlMs?.p99 ?? Infinity)),
]

/** Smaller differences than this share of a value are none. */
const noticeable = 0.005

/**
 * The Pareto front, best first: the best by rank, and the policies that none before them dominates; what has less
 * than half the best goodput is no choice.
 *
 * @returns for each policy its results, of all seeds
 */
export function paretoFront(results: readonly SimulationResult[]): SeedResults[] {
  const front: SeedResults[] = []
  // By rank, as results that are nearly equal may beat each other in a circle.
  for (const one of ranked(results)) {
    if (goodputOf(one) < goodputOf(front[0] ?? one) / 2) break
    if (!front.some((better) => dominates(better, one))) front.push(one)
  }
  return front
}

/**
 * Policies by goodput, then TTFT p99, each the mean over the seeds. Of policies that are equal in every criterion,
 * only the first is kept.
 *
 * @returns for each policy its results, of all seeds
 */
export function ranked(results: readonly SimulationResult[]): SeedResults[] {
  const keyOf = (own: SeedResults) => objectives.map((of) => of(own)).join(' ')
  const policies = [...groupBy(results, nameOf).values()]
  return Array.from(groupBy(policies, keyOf).values(), ([first]) => first!).toSorted(
    (a, b) => goodputOf(b) - goodputOf(a) || ttftOf(a) - ttftOf(b),
  )
}

function dominates(one: SeedResults, other: SeedResults): boolean {
  let isBetter = false
  for (const of of objectives) {
    const [its, others] = [of(one), of(other)]
    const margin = noticeable * Math.abs(others)
    if (its < others - margin) return false
    if (its > others + margin) isBetter = true
  }
  return isBetter
}

/** The figures of a policy on a real server, over all its rounds. */
export interface Confirmed {
  /** The policy with its options. */
  readonly name: string
  /** Share of the requests that kept every limit. */
  readonly goodput: number
  readonly ttftP99Ms: number
  readonly itlP99Ms: number
}

/** How policies are confirmed. */
export interface ConfirmOptions extends Pick<ModelSettings, 'model' | 'gpu' | 'threads'> {
  /** Requests or programs, per policy and round. */
  readonly requests: number
  readonly signal: AbortSignal
}

/** Each policy is measured so often, in turns, after a few requests that are not measured. */
const rounds = 2
const warmUpRequests = 4

/** Serves a model and sends it the load's first requests under each of these policies in turn, twice. */
export async function confirm(
  best: readonly SimulationResult[],
  { load, slo = {}, slots, contextSize, kvTokens, batchSize, acceptance }: SimulationSetup,
  { signal, requests: most, ...model }: ConfirmOptions,
  host: ModelHost,
): Promise<Confirmed[]> {
  const [first] = best
  if (first === undefined) return []
  const { policy, policyOptions } = first
  const speculates = acceptance !== undefined
  const sizes = { slots, contextSize, batchSize, speculates, ...defined({ kvTokens }) }
  const { url, client, close } = await host.serve({ ...model, ...sizes, policy, policyOptions })
  const agent = agentFor(url, 'reuse')
  const target = { name: model.model, url, api: cllmApi, headers: {}, extraBody: {}, agent }
  const requests = Math.min(load.requests, most)
  const sampling = { temperature: 0.7, ignoreEos: true, timeoutMs: 600_000 }
  const measured = best.map((result) => ({ result, records: [] as RunRecord[] }))
  try {
    // Fresh prompts, so that no policy reuses the KV cache of the previous one.
    const send = async (salt: string, count: number, dataset = load.dataset) => {
      const all = { ...load, dataset, requests: count, ...sampling }
      return (await runLoad(target, all, { salt, firstItem: 0, signal })).records
    }
    await send('warm-up', Math.min(requests, warmUpRequests), firstRequests(load.dataset))
    for (let round = 1; round <= rounds; round++) {
      for (const { result, records } of measured) {
        await client.setScheduler(result.policy, result.policyOptions)
        records.push(...(await send(`${nameOf(result)} ${round}`, requests)))
      }
    }
  } finally {
    await close()
  }
  return measured.map(({ result, records }) => {
    const { goodput, ttftMs, itlMs } = summarize(records, slo)
    return {
      name: nameOf(result),
      goodput: goodput?.share ?? 0,
      ttftP99Ms: ttftMs?.p99 ?? NaN,
      itlP99Ms: itlMs?.p99 ?? NaN,
    }
  })
}

/**
 * The best confirmed policy by goodput, then TTFT p99; else the best simulated one.
 *
 * @param front - one result of each policy, best first
 */
export function winnerOf(
  front: readonly SimulationResult[],
  confirmed: readonly Confirmed[],
): SimulationResult | undefined {
  const [best] = confirmed.toSorted(
    (a, b) => b.goodput - a.goodput || (a.ttftP99Ms || Infinity) - (b.ttftP99Ms || Infinity),
  )
  return front.find((result) => nameOf(result) === best?.name) ?? front[0]
}
