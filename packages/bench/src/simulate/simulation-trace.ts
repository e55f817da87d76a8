import { chromeTrace } from '../report/chrome-trace.js'
import { measuredRuns } from './measured-runs.js'
import { nameOf } from './simulation-table.js'
import type { SimulatedRun } from './simulation-result.js'

/** A timeline of the requests, and what the steps were made of as counters beside it. */
export function simulationTrace(runs: readonly SimulatedRun[]): { traceEvents: unknown[] } {
  const requests = chromeTrace(measuredRuns(runs)).traceEvents
  const steps = runs.flatMap(({ result, steps: buckets }, index) => {
    const pid = runs.length + index
    const name = `${nameOf(result)}: steps`
    return [
      { name: 'process_name', ph: 'M', pid, tid: 0, args: { name } },
      ...buckets.map(({ atMs, steps: count, prefillTokens, decodeTokens }) => ({
        name: 'tokens per step',
        ph: 'C',
        pid,
        ts: atMs * 1000,
        args: { prefill: prefillTokens / count, decode: decodeTokens / count },
      })),
    ]
  })
  return { traceEvents: [...requests, ...steps] }
}
