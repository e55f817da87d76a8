import type { ReportContent } from '../report/html/html-report.js'
import { lengthsInWords } from '../report/html/plots.js'
import { loadName, type MeasuredRun, schemaVersion } from '../report/run-result.js'
import type { SimulatedRun, SimulationResult, SimulationSetup } from './simulate-policy.js'
import { formatNumber, type Numbers, numbersOf, textsOf } from '../report/figures.js'
import { numbersTable } from '../report/tables.js'
import { groupBy } from '../statistics/statistics.js'

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

/** The description of a simulation, printed before the first result. */
export function simulationHead(setup: SimulationSetup): string {
  const { machine, load, slots, contextSize, batchSize, machines, router, fleet } = setup
  const several = machines > 1 ? `${machines} machines (${router}), each with ` : ''
  const { fronts = 1, viewAgeMs = 0, deaths = 0, spread = 1, drains = [] } = fleet ?? {}
  const events = textsOf(
    fronts !== 1 && `${fronts} fronts`,
    viewAgeMs !== 0 && `views ${formatNumber(viewAgeMs)} ms old`,
    deaths !== 0 && `${formatNumber(100 * deaths)} % of the machines die each minute`,
    spread !== 1 && `the slowest machine is ${formatNumber(spread)} times as slow`,
    drains.length > 0 && `${drains.length} machines drain`,
  )
  const { acceptance, draftShare, kvTokens, models, images } = setup
  const pool = kvTokens === undefined ? '' : ` (${kvTokens} together)`
  const by = draftShare === undefined ? '' : ` of a model of ${draftShare} of the time`
  const drafts = acceptance === undefined ? '' : `, drafts${by} right with ${acceptance}`
  return textsOf(
    `${load.requests} requests of ${load.dataset.name}, ${loadName(load.shape)}, seed ${load.seed}`,
    `${several}${slots} slots of ${contextSize} tokens${pool}, ${batchSize} tokens per step${drafts}`,
    events.length > 0 && events.join(', '),
    images !== undefined &&
      `${Number((100 * images.share).toFixed(6))} % of the requests have an image of ${images.tokens} tokens, encoded in ${images.encodeMs} ms`,
    models !== undefined &&
      `${models.maxLoaded} models in memory at a time, chosen by ${models.scheduler}`,
    `cost model ${machine.name}: ${machine.about}\n\n`,
  ).join('\n')
}

/** The numbers of a result, in their order; those that were not measured are undefined. */
export function simulatedNumbers(result: SimulationResult): Numbers {
  const { summary, draftTokens, acceptance } = result
  const { cachedTokens, promptTokens } = summary
  const hasPrompts = promptTokens > 0
  return {
    ...numbersOf(summary),
    'prompt tokens reused %': hasPrompts ? (100 * cachedTokens) / promptTokens : undefined,
    'prompt tokens computed': hasPrompts ? promptTokens - cachedTokens : undefined,
    preemptions: result.preemptions,
    'models swapped': result.swaps,
    'draft tokens accepted %':
      draftTokens > 0 ? (100 * result.acceptedTokens) / draftTokens : undefined,
    'draft tokens verified': acceptance === undefined ? undefined : draftTokens,
    'busy %': 100 * result.utilization,
    'simulated s': summary.durationMs / 1000,
    'real s': result.wall_ms / 1000,
  }
}

/**
 * A table of the policies' results, a row for each policy; of a single policy, a row for each number. Of
 * several seeds, each number is the mean with its 95 % interval.
 */
export function simulationTable(results: readonly SimulationResult[]): string {
  const byName = [...groupBy(results, nameOf)]
  const table = numbersTable(byName.map(([name, own]) => [name, own.map(simulatedNumbers)]))
  const notes = results.flatMap((one) => [
    ...Object.entries(one.failures).map(
      ([kind, text]) => `${nameOf(one)}: failed with ${kind}: ${text}\n`,
    ),
    ...one.warnings.map((warning) => `${nameOf(one)}: warning: ${warning}\n`),
  ])
  return `${table}\n${[...new Set(notes)].join('')}\n`
}

/** A note where the seeds changed no figure of any policy, as with a trace that has its own times; else empty. */
export function seedsNote(results: readonly SimulationResult[]): string {
  const figuresOf = (result: SimulationResult) => JSON.stringify({ ...result, seed: 0, wall_ms: 0 })
  const isAlike = (own: readonly SimulationResult[]) => new Set(own.map(figuresOf)).size === 1
  const hasSeveral = new Set(results.map(({ seed }) => seed)).size > 1
  if (!hasSeveral || ![...groupBy(results, nameOf).values()].every(isAlike)) return ''
  return 'note: every seed gave the same figures\n'
}

/** A policy's name with its options. */
export function nameOf({ policy, policyOptions }: SimulationResult): string {
  const options = Object.entries(policyOptions).map(([name, value]) => {
    return `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`
  })
  return options.length === 0 ? policy : `${policy} ${options.join(' ')}`
}
