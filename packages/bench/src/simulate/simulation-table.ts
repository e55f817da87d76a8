import { figures, formatNumber } from '../report/figures.js'
import { loadName } from '../report/run-result.js'
import { textTable } from '../report/tables.js'
import type { SimulationSetup } from './simulate-policy.js'
import type { SimulationResult } from './simulation-result.js'

/** The description of a simulation, printed before the first result. */
export function simulationHead(setup: SimulationSetup): string {
  const { machine, load, slots, contextSize, batchSize, machines, router, fleet } = setup
  const several = machines > 1 ? `${machines} machines (${router}), each with ` : ''
  const { fronts = 1, viewAgeMs = 0, deaths = 0, spread = 1, drains = [] } = fleet ?? {}
  const events = [
    ...(fronts === 1 ? [] : [`${fronts} fronts`]),
    ...(viewAgeMs === 0 ? [] : [`views ${formatNumber(viewAgeMs)} ms old`]),
    ...(deaths === 0 ? [] : [`${formatNumber(100 * deaths)} % of the machines die each minute`]),
    ...(spread === 1 ? [] : [`the slowest machine is ${formatNumber(spread)} times as slow`]),
    ...(drains.length === 0 ? [] : [`${drains.length} machines drain`]),
  ]
  const { acceptance, draftShare, kvTokens } = setup
  const pool = kvTokens === undefined ? '' : ` (${kvTokens} together)`
  const by = draftShare === undefined ? '' : ` of a model of ${draftShare} of the time`
  const drafts = acceptance === undefined ? '' : `, drafts${by} right with ${acceptance}`
  return [
    `${load.requests} requests of ${load.dataset.name}, ${loadName(load.shape)}, seed ${load.seed}`,
    `${several}${slots} slots of ${contextSize} tokens${pool}, ${batchSize} tokens per step${drafts}`,
    ...(events.length === 0 ? [] : [events.join(', ')]),
    `cost model ${machine.name}: ${machine.about}\n\n`,
  ].join('\n')
}

/** A table of the policies' results, one column per policy. */
export function simulationTable(results: readonly SimulationResult[]): string {
  const number = (name: string, of: (result: SimulationResult) => number | undefined) => {
    const values = results.map(of)
    return values.every((value) => value === undefined) ? [] : [[name, ...values.map(formatNumber)]]
  }
  const rows = [
    ...number('ok', ({ summary }) => summary.requests.ok),
    ...number('failed', ({ summary }) => summary.requests.failed),
    ...figures.flatMap(({ name, unit, of }) =>
      number(`${name} ${unit}`, ({ summary }) => of(summary)),
    ),
    ...number('Jain index of tenants', ({ summary }) => summary.jain),
    ...number('prompt tokens reused %', ({ summary: { cachedTokens, promptTokens } }) =>
      promptTokens > 0 ? (100 * cachedTokens) / promptTokens : undefined,
    ),
    ...number('prompt tokens computed', ({ summary: { cachedTokens, promptTokens } }) =>
      promptTokens > 0 ? promptTokens - cachedTokens : undefined,
    ),
    ...number('preemptions', ({ preemptions }) => preemptions),
    ...number('draft tokens accepted %', ({ acceptedTokens, draftTokens }) =>
      draftTokens > 0 ? (100 * acceptedTokens) / draftTokens : undefined,
    ),
    ...number('draft tokens verified', ({ acceptance, draftTokens }) =>
      acceptance === undefined ? undefined : draftTokens,
    ),
    ...number('busy %', ({ utilization }) => 100 * utilization),
    ...number('simulated s', ({ summary }) => summary.durationMs / 1000),
    ...number('real s', (result) => result.wall_ms / 1000),
  ]
  const notes = results.flatMap(({ policy, failures, warnings }) => [
    ...Object.entries(failures).map(([kind, text]) => `${policy}: failed with ${kind}: ${text}\n`),
    ...warnings.map((warning) => `${policy}: warning: ${warning}\n`),
  ])
  return `${textTable(['', ...results.map(nameOf)], rows)}\n${notes.join('')}\n`
}

/** A policy's name with its options. */
export function nameOf({ policy, policyOptions }: SimulationResult): string {
  const options = Object.entries(policyOptions).map(([name, value]) => {
    return `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`
  })
  return options.length === 0 ? policy : `${policy} ${options.join(' ')}`
}
