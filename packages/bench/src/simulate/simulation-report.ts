import type { ReportContent } from '../report/html/html-report.js'
import { lengthsInWords } from '../report/html/plots.js'
import { loadName, type MeasuredRun, schemaVersion } from '../report/run-result.js'
import type { SimulatedRun } from './simulation-result.js'
import { nameOf } from './simulation-table.js'

/** What a report and a timeline show of policies under one load: each policy stands for a target. */
export function simulationContent(simulated: readonly SimulatedRun[]): ReportContent {
  const runs = simulated.map(measured)
  const about = simulated.slice(0, 1).flatMap(({ result }) => {
    const { requests, dataset, load, seed, slots, contextSize, batchSize, cost } = result
    return [
      `${requests} requests of ${dataset}, ${loadName(load)}, seed ${seed}`,
      ...[lengthsInWords(runs) ?? []].flat(),
      `${result.machines} machines (${result.router}), ${slots} slots of ${contextSize} tokens, ${batchSize} tokens per step`,
      `cost model ${cost.name}: ${cost.about}`,
    ]
  })
  return { title: 'cllm simulate', runs, about }
}

function measured({ result, records, steps }: SimulatedRun): MeasuredRun {
  const { load, dataset, seed, summary, failures, cost } = result
  const name = nameOf(result)
  return {
    records,
    steps,
    result: {
      schema: schemaVersion,
      kind: 'run',
      target: { name, url: 'simulation:', api: 'simulation', model: cost.name },
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
      warnings: result.warnings.map((text) => `${name}: ${text}`),
    },
  }
}
