import type { CompareResult } from '../../compare/compare-result.js'
import { figures } from '../figures.js'
import { formatEstimate, formatNumber } from '../format.js'
import { escapeHtml, htmlPage, htmlTable } from './html.js'
import { ganttPlot, latencies, latencyPlot, servicePlot, throughputPlot } from './plots.js'
import { loadName, type MeasuredRun } from '../run-result.js'
import { stepPlot } from './step-plot.js'

/** The content of a report. */
export interface ReportContent {
  readonly title: string
  readonly runs: readonly MeasuredRun[]
  readonly compared?: CompareResult
}

/** One self-contained HTML page with the figures and plots of some runs. */
export async function htmlReport({ title, runs, compared }: ReportContent): Promise<string> {
  const sections = [
    `<h1>${escapeHtml(title)}</h1>`,
    about(runs),
    warnings(runs, compared),
    ...(compared === undefined ? [] : comparison(compared)),
    '<h2>Runs</h2>',
    runsTable(runs),
    ...(await plots(runs)),
  ]
  return htmlPage(title, sections.join('\n'))
}

function about(runs: readonly MeasuredRun[]): string {
  const first = runs[0]?.result
  if (first === undefined) return '<p>Nothing was measured.</p>'
  const targets = new Map(runs.map(({ result: { target } }) => [target.name, target]))
  const list = [...targets.values()].map(
    ({ name, url, api, model }) => `${name}: ${url} (${api}${model === null ? '' : `, ${model}`})`,
  )
  const lines = [
    ...list,
    `${first.startedAt}, seed ${first.seed}, dataset ${first.dataset}`,
    `client: ${first.client.cpu}, ${first.client.cores} cores, Node ${first.client.node}`,
  ]
  return `<p>${lines.map(escapeHtml).join('<br>')}</p>`
}

function warnings(runs: readonly MeasuredRun[], compared: CompareResult | undefined): string {
  const all = compared?.warnings ?? runs.flatMap(({ result }) => result.warnings)
  return [...new Set(all)].map((text) => `<p class="warning">${escapeHtml(text)}</p>`).join('\n')
}

function comparison({ loads, baseline }: CompareResult): string[] {
  return loads.flatMap(({ load, figures: values, ratios }) => {
    const names = Object.keys(values)
    const others = Object.keys(ratios)
    const rows = figures
      .filter(({ name }) => names.some((target) => values[target]?.[name] !== undefined))
      .map(({ name, unit }) => [
        `${name}, ${unit}`,
        ...names.map((target) => formatEstimate(values[target]?.[name])),
        ...others.flatMap((target) => {
          const ratio = ratios[target]?.[name]
          return [formatEstimate(ratio), ratio?.verdict ?? '–']
        }),
      ])
    const head = ['', ...names, ...others.flatMap((name) => [`${name} / ${baseline}`, ''])]
    return [`<h2>${escapeHtml(loadName(load))}</h2>`, htmlTable(head, rows)]
  })
}

function runsTable(runs: readonly MeasuredRun[]): string {
  const head = ['', 'ok', 'failed', ...figures.map(({ name, unit }) => `${name}, ${unit}`)]
  const rows = runs.map(({ result: { target, load, repeat, summary } }) => [
    `${target.name}, ${loadName(load)}, ${repeat}`,
    String(summary.requests.ok),
    String(summary.requests.failed),
    ...figures.map(({ of }) => formatNumber(of(summary))),
  ])
  return htmlTable(head, rows)
}

async function plots(runs: readonly MeasuredRun[]): Promise<string[]> {
  const figure = async (caption: string, svg: Promise<string>) =>
    `<figure>${await svg}<figcaption>${escapeHtml(caption)}</figcaption></figure>`
  const sections = ['<h2>Latency</h2>']
  for (const [name, of] of latencies) sections.push(await figure(name, latencyPlot(runs, name, of)))
  sections.push('<h2>Throughput against latency</h2>')
  sections.push(await figure('One point per run', throughputPlot(runs)))
  sections.push('<h2>Requests</h2>')
  for (const run of lastOfEach(runs)) {
    const { target, load, repeat } = run.result
    const name = `${target.name}, ${loadName(load)}, run ${repeat}`
    sections.push(await figure(`${name}: one bar per request, at most 500`, ganttPlot(run)))
    if (run.steps !== undefined) {
      sections.push(await figure(`${name}: composition of the steps`, stepPlot(run.steps)))
    }
    if (run.result.summary.tenants.length < 2) continue
    sections.push(await figure(`${name}: service by tenant`, servicePlot(run)))
  }
  return sections
}

/** The plots show the last run of every target and load. */
function lastOfEach(runs: readonly MeasuredRun[]): MeasuredRun[] {
  const name = ({ result }: MeasuredRun) => `${result.target.name}, ${loadName(result.load)}`
  return [...new Map(runs.map((run) => [name(run), run])).values()]
}
