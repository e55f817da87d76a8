import { chromeTrace } from '../report/chrome-trace.js'
import { measuredRuns } from './measured-runs.js'
import { nameOf } from './simulation-table.js'
import type { SimulatedRun } from './simulation-result.js'
import type { StepBucket } from '../report/step-history.js'

/** A timeline of the requests, with the composition of the steps as counters. */
export function simulationTrace(runs: readonly SimulatedRun[]): { traceEvents: unknown[] } {
  const requests = chromeTrace(measuredRuns(runs)).traceEvents
  const steps = runs.flatMap(({ result, steps: buckets }, index) =>
    stepTrace(nameOf(result), runs.length + index, buckets),
  )
  return { traceEvents: [...requests, ...steps] }
}

/** The composition of steps as a counter of the Trace Event Format. */
function stepTrace(name: string, pid: number, steps: readonly StepBucket[]): unknown[] {
  return [
    { name: 'process_name', ph: 'M', pid, tid: 0, args: { name: `${name}: steps` } },
    ...steps.map(({ atMs, steps: count, prefillTokens, decodeTokens }) => ({
      name: 'tokens per step',
      ph: 'C',
      pid,
      ts: atMs * 1000,
      args: { prefill: prefillTokens / count, decode: decodeTokens / count },
    })),
  ]
}
