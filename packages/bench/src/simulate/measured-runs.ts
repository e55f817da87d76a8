import { schemaVersion, type MeasuredRun } from '../report/run-result.js'
import { nameOf } from './simulation-table.js'
import type { SimulatedRun } from './simulation-result.js'

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
