import { figuresTable } from '../report/html/figures-table.js'
import { escapeHtml } from '../report/html/escape-html.js'
import { htmlPage } from '../report/html/html.js'
import {
  ganttPlot,
  lengthsInWords,
  overviewPlots,
  servicePlot,
  stepPlot,
} from '../report/html/plots.js'
import { loadName, type MeasuredRun } from '../report/run-result.js'
import { measuredRuns } from './simulation-trace.js'
import { nameOf } from './simulation-table.js'
import type { SimulatedRun, SimulationResult } from './simulation-result.js'

/** One self-contained HTML page about some policies under one load. */
export function simulationReport(runs: readonly SimulatedRun[]): string {
  const [first] = runs
  if (first === undefined) return htmlPage('cllm simulate', '<p>Nothing was simulated.</p>')
  const results = runs.map(({ result }) => result)
  const measured = measuredRuns(runs)
  const sections = [
    '<h1>cllm simulate</h1>',
    about(first.result, measured),
    ...results.flatMap(({ policy, warnings }) =>
      warnings.map((text) => `<p class="warning">${escapeHtml(`${policy}: ${text}`)}</p>`),
    ),
    figuresTable(results.map((result) => ({ name: nameOf(result), summary: result.summary }))),
    '<h2>Latency and throughput</h2>',
    '<div class="charts">',
    ...overviewPlots(measured, 'policy'),
    '</div>',
    ...runs.map((run, index) => ofPolicy(run, measured[index])),
  ]
  return htmlPage('cllm simulate', sections.join('\n'))
}

function about(result: SimulationResult, measured: readonly MeasuredRun[]): string {
  const { requests, dataset, load, seed, slots, contextSize, batchSize, cost } = result
  const lines = [
    `${requests} requests of ${dataset}, ${loadName(load)}, seed ${seed}`,
    ...[lengthsInWords(measured) ?? []].flat(),
    `${result.machines} machines (${result.router}), ${slots} slots of ${contextSize} tokens, ${batchSize} tokens per step`,
    `cost model ${cost.name}: ${cost.about}`,
  ]
  return `<p class="about">${lines.map(escapeHtml).join('<br>')}</p>`
}

function ofPolicy({ result, steps }: SimulatedRun, run: MeasuredRun | undefined): string {
  if (run === undefined) return ''
  return [
    `<h2>${escapeHtml(nameOf(result))}</h2>`,
    '<div class="charts">',
    stepPlot(steps, 'Composition of the steps'),
    ...(result.summary.tenants.length < 2 ? [] : [servicePlot(run, 'Service by tenant')]),
    ganttPlot(run, 'One bar per request, at most 500'),
    '</div>',
  ].join('\n')
}
