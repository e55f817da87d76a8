import { chromeTrace } from '../report/chrome-trace.js'
import { nameOf } from './simulation-table.js'
import type { SimulatedRun } from './simulation-result.js'
import type { StepBucket } from '../report/step-history.js'
import { type MeasuredRun, schemaVersion } from '../report/run-result.js'

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

/** Simulations in the form that the reports' plots take: the policy is shown as the target. */
export function measuredRuns(runs: readonly SimulatedRun[]): MeasuredRun[] {
  return runs.map(({ result, records }) => {
    const { load, dataset, seed, summary, failures, warnings, cost } = result
    return {
      records,
      result: {
        schema: schemaVersion,
        kind: 'run',
        target: { name: nameOf(result), url: 'simulation:', api: 'simulation', model: cost.name },
        load,
        dataset,
        repeat: 1,
        seed,
        startedAt: '',
        client: { node: process.version, cpu: cost.name, cores: 1 },
        stopped: null,
        eventLoopP99Ms: 0,
        summary,
        failures,
        warnings,
      },
    }
  })
}
