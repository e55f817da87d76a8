import type { CompareResult } from '../../compare/compare-runs.js'
import { loadName, type MeasuredRun } from '../run-result.js'
import { comparedTable, figuresTable } from './figures-table.js'
import { escapeHtml } from './escape-html.js'
import { htmlPage } from './html.js'
import { ganttPlot, lengthsInWords, overviewPlots, servicePlot, stepPlot } from './plots.js'

/** The content of a report. */
export interface ReportContent {
  readonly title: string
  readonly runs: readonly MeasuredRun[]
  readonly compared?: CompareResult
  /** What was measured, in lines; default: the targets, the load and the client. */
  readonly about?: readonly string[]
}

/** One self-contained HTML page with the figures and plots of some runs. */
export function htmlReport({
  title,
  runs,
  compared,
  about = aboutOf(runs),
}: ReportContent): string {
  const sections = [
    `<h1>${escapeHtml(title)}</h1>`,
    runs.length === 0
      ? '<p>Nothing was measured.</p>'
      : `<p class="about">${about.map(escapeHtml).join('<br>')}</p>`,
    warnings(runs, compared),
    ...(compared === undefined ? [] : comparison(compared)),
    '<h2>Runs</h2>',
    figuresTable(runs.map(({ result }) => ({ name: runName(result), summary: result.summary }))),
    '<h2>Latency and throughput</h2>',
    `<div class="charts">${overviewPlots(runs, 'run').join('\n')}</div>`,
    '<h2>Requests</h2>',
    `<div class="charts">${requests(runs).join('\n')}</div>`,
  ]
  return htmlPage(title, sections.join('\n'))
}

const runName = ({ target, load, repeat }: MeasuredRun['result']) =>
  `${target.name}, ${loadName(load)}, run ${repeat}`

function aboutOf(runs: readonly MeasuredRun[]): string[] {
  const first = runs[0]?.result
  if (first === undefined) return []
  const targets = new Map(runs.map(({ result: { target } }) => [target.name, target]))
  const list = [...targets.values()].map(
    ({ name, url, api, model }) => `${name}: ${url} (${api}${model === null ? '' : `, ${model}`})`,
  )
  return [
    ...list,
    `${first.startedAt}, seed ${first.seed}, dataset ${first.dataset}`,
    ...[lengthsInWords(runs) ?? []].flat(),
    `client: ${first.client.cpu}, ${first.client.cores} cores, Node ${first.client.node}`,
  ]
}

function warnings(runs: readonly MeasuredRun[], compared: CompareResult | undefined): string {
  const all = compared?.warnings ?? runs.flatMap(({ result }) => result.warnings)
  return [...new Set(all)].map((text) => `<p class="warning">${escapeHtml(text)}</p>`).join('\n')
}

function comparison({ loads, baseline, rounds }: CompareResult): string[] {
  const note = `Means of ${rounds} rounds; below them the ratio to ${baseline} with its 95 % interval, coloured where that does not contain 1.`
  return loads.flatMap((one) => [
    `<h2>${escapeHtml(loadName(one.load))}</h2>`,
    `<p class="about">${escapeHtml(note)}</p>`,
    comparedTable(one),
  ])
}

function requests(runs: readonly MeasuredRun[]): string[] {
  return lastOfEach(runs).flatMap((run) => {
    const name = runName(run.result)
    return [
      ganttPlot(run, `${name}: one bar per request, at most 500`),
      ...(run.steps === undefined
        ? []
        : [stepPlot(run.steps, `${name}: composition of the steps`)]),
      ...(run.result.summary.tenants.length < 2
        ? []
        : [servicePlot(run, `${name}: service by tenant`)]),
    ]
  })
}

/** The plots show the last run of every target and load. */
function lastOfEach(runs: readonly MeasuredRun[]): MeasuredRun[] {
  const name = ({ result }: MeasuredRun) => `${result.target.name}, ${loadName(result.load)}`
  return [...new Map(runs.map((run) => [name(run), run])).values()]
}
