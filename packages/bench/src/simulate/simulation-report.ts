import { figures } from '../report/figures.js'
import { formatNumber } from '../report/format.js'
import { escapeHtml, htmlPage, htmlTable } from '../report/html/html.js'
import { loadName } from '../report/run-result.js'
import { measuredRuns } from './measured-runs.js'
import { nameOf } from './simulation-table.js'
import type { SimulatedRun, SimulationResult } from './simulation-result.js'

/** One self-contained HTML page about some policies under one load. */
export async function simulationReport(runs: readonly SimulatedRun[]): Promise<string> {
  const [first] = runs
  if (first === undefined) return htmlPage('cllm simulate', '<p>Nothing was simulated.</p>')
  const results = runs.map(({ result }) => result)
  const sections = [
    '<h1>cllm simulate</h1>',
    about(first.result),
    ...results.flatMap(({ policy, warnings }) =>
      warnings.map((text) => `<p class="warning">${escapeHtml(`${policy}: ${text}`)}</p>`),
    ),
    htmlTable(
      ['', ...results.map(nameOf)],
      [
        ['ok', ...results.map(({ summary }) => formatNumber(summary.requests.ok))],
        ['failed', ...results.map(({ summary }) => formatNumber(summary.requests.failed))],
        ...figures.map(({ name, unit, of }) => [
          `${name}, ${unit}`,
          ...results.map(({ summary }) => formatNumber(of(summary))),
        ]),
      ],
    ),
    ...(await plots(runs)),
  ]
  return htmlPage('cllm simulate', sections.join('\n'))
}

function about(result: SimulationResult): string {
  const { requests, dataset, load, seed, slots, contextSize, batchSize, cost } = result
  const lines = [
    `${requests} requests of ${dataset}, ${loadName(load)}, seed ${seed}`,
    `${result.machines} machines (${result.router}), ${slots} slots of ${contextSize} tokens, ${batchSize} tokens per step`,
    `cost model ${cost.name}: ${cost.about}`,
  ]
  return `<p>${lines.map(escapeHtml).join('<br>')}</p>`
}

async function plots(runs: readonly SimulatedRun[]): Promise<string[]> {
  // Plots take a second to load.
  const { ganttPlot, latencies, latencyPlot, servicePlot, throughputPlot } =
    await import('../report/html/plots.js')
  const { stepPlot } = await import('../report/html/step-plot.js')
  const measured = measuredRuns(runs)
  const figure = async (caption: string, svg: Promise<string>) =>
    `<figure>${await svg}<figcaption>${escapeHtml(caption)}</figcaption></figure>`
  const sections = ['<h2>Latency</h2>']
  for (const [name, of] of latencies) {
    sections.push(await figure(name, latencyPlot(measured, name, of)))
  }
  sections.push('<h2>Throughput against latency</h2>')
  sections.push(await figure('One point per policy', throughputPlot(measured)))
  for (const [index, run] of runs.entries()) {
    const one = measured[index]
    if (one === undefined) continue
    sections.push(`<h2>${escapeHtml(nameOf(run.result))}</h2>`)
    sections.push(await figure('Composition of the steps', stepPlot(run.steps)))
    sections.push(await figure('One bar per request, at most 500', ganttPlot(one)))
    if (run.result.summary.tenants.length < 2) continue
    sections.push(await figure('Service by tenant', servicePlot(one)))
  }
  return sections
}
