import { chromeTrace } from '../report/chrome-trace.js'
import { stepTrace } from '../report/step-trace.js'
import { measuredRuns } from './measured-runs.js'
import { nameOf } from './simulation-table.js'
import type { SimulatedRun } from './simulation-result.js'

/** A timeline of the requests, with the composition of the steps as counters. */
export function simulationTrace(runs: readonly SimulatedRun[]): { traceEvents: unknown[] } {
  const requests = chromeTrace(measuredRuns(runs)).traceEvents
  const steps = runs.flatMap(({ result, steps: buckets }, index) =>
    stepTrace(nameOf(result), runs.length + index, buckets),
  )
  return { traceEvents: [...requests, ...steps] }
}
