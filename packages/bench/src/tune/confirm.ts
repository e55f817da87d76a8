import { cllmApi } from '../apis/cllm.js'
import type { ModelHost, ModelSettings } from '../model-host.js'
import { runLoad } from '../load/run-load.js'
import { agentFor } from '../load/target.js'
import { summarize } from '../metrics/summarize.js'
import type { SimulationSetup } from '../simulate/simulate-policy.js'
import type { SimulationResult } from '../simulate/simulation-result.js'
import { nameOf } from '../simulate/simulation-table.js'

/** The figures of a policy on a real server. */
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
  readonly requests: number
  readonly signal: AbortSignal
}

/** Serves a model and sends it the load's first requests under each of these policies in turn. */
export async function confirm(
  best: readonly SimulationResult[],
  { load, slo = {}, slots, contextSize, batchSize }: SimulationSetup,
  { signal, requests: most, ...model }: ConfirmOptions,
  host: ModelHost,
): Promise<Confirmed[]> {
  const [first] = best
  if (first === undefined) return []
  const { policy, policyOptions } = first
  const sizes = { slots, contextSize, batchSize }
  const { url, client, close } = await host.serve({ ...model, ...sizes, policy, policyOptions })
  const agent = agentFor(url, 'reuse')
  const target = { name: model.model, url, api: cllmApi, headers: {}, extraBody: {}, agent }
  const requests = Math.min(load.requests, most)
  const sampling = { temperature: 0.7, ignoreEos: true, timeoutMs: 600_000 }
  const confirmed: Confirmed[] = []
  try {
    for (const result of best) {
      const name = nameOf(result)
      await client.setScheduler(result.policy, result.policyOptions)
      // Fresh prompts, so that no policy reuses the KV cache of the previous one.
      const run = { salt: name, firstItem: 0, signal }
      const { records } = await runLoad(target, { ...load, requests, ...sampling }, run)
      const { goodput, ttftMs, itlMs } = summarize(records, slo)
      confirmed.push({
        name,
        goodput: goodput?.share ?? 0,
        ttftP99Ms: ttftMs?.p99 ?? NaN,
        itlP99Ms: itlMs?.p99 ?? NaN,
      })
    }
  } finally {
    await close()
  }
  return confirmed
}

/** The best confirmed policy by goodput, then TTFT p99; else the best simulated one. */
export function winnerOf(
  front: readonly SimulationResult[],
  confirmed: readonly Confirmed[],
): SimulationResult | undefined {
  const [best] = confirmed.toSorted(
    (a, b) => b.goodput - a.goodput || (a.ttftP99Ms || Infinity) - (b.ttftP99Ms || Infinity),
  )
  return front.find((result) => nameOf(result) === best?.name) ?? front[0]
}
