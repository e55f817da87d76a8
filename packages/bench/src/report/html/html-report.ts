import type { ComparedLoad, CompareResult, Ratio } from '../../compare/compare-runs.js'
import { escapeHtml } from '../chart/frame.js'
import { figures, type Figure, formatNumber, textsOf } from '../figures.js'
import { loadName, type MeasuredRun } from '../run-result.js'
import { htmlPage, htmlTable, type Cell } from './html.js'
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
export function htmlReport(content: ReportContent): string {
  const { title, runs, compared, about = aboutOf(runs) } = content
  const sections = [
    `<h1>${escapeHtml(title)}</h1>`,
    runs.length === 0
      ? '<p>Nothing was measured.</p>'
      : `<p class="about">${about.map(escapeHtml).join('<br>')}</p>`,
    warnings(runs, compared),
    ...(compared === undefined ? [] : comparison(compared)),
    '<h2>Runs</h2>',
    figuresTable(runs),
    '<h2>Latency and throughput</h2>',
    `<div class="charts">${overviewPlots(runs).join('\n')}</div>`,
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
    return textsOf(
      ganttPlot(run, `${name}: one bar per request, at most 500`),
      run.steps !== undefined && stepPlot(run.steps, `${name}: composition of the steps`),
      run.result.summary.tenants.length > 1 && servicePlot(run, `${name}: service by tenant`),
    )
  })
}

/** The plots show the last run of every target and load. */
function lastOfEach(runs: readonly MeasuredRun[]): MeasuredRun[] {
  const name = ({ result }: MeasuredRun) => `${result.target.name}, ${loadName(result.load)}`
  return [...new Map(runs.map((run) => [name(run), run])).values()]
}

/** The head of a column. */
const columnOf = ({ name, unit }: Figure) => `${name} ${unit}`

/** A row for each run and a column for each figure that was measured. */
function figuresTable(runs: readonly MeasuredRun[]): string {
  const results = runs.map(({ result }) => result)
  const shown = figures.filter(({ of }) => results.some(({ summary }) => of(summary) !== undefined))
  const hasFailed = results.some(({ summary }) => summary.requests.failed > 0)
  const head = ['', 'ok', ...(hasFailed ? ['failed'] : []), ...shown.map(columnOf)]
  return htmlTable(
    head,
    results.map((result) => [
      runName(result),
      formatNumber(result.summary.requests.ok),
      ...(hasFailed ? [formatNumber(result.summary.requests.failed)] : []),
      ...shown.map(({ of }) => formatNumber(of(result.summary))),
    ]),
  )
}

/** A row for each target; below each figure its ratio to the baseline's, coloured if it is no noise. */
function comparedTable({ figures: values, ratios }: ComparedLoad): string {
  const shown = figures.filter(({ name }) =>
    Object.values(values).some((own) => own[name] !== undefined),
  )
  const rows = Object.entries(values).map(([target, own]) => [
    target,
    ...shown.map(({ name }): Cell =>
      withRatio(formatNumber(own[name]?.mean), ratios[target]?.[name]),
    ),
  ])
  return htmlTable(['', ...shown.map(columnOf)], rows)
}

function withRatio(text: string, ratio: Ratio | undefined): Cell {
  if (ratio === undefined) return { text }
  const tone = ratio.verdict === 'better' || ratio.verdict === 'worse' ? ratio.verdict : 'plain'
  return { text, note: noteOf(ratio), tone }
}

/** The ratio, and its interval in a line of its own. */
function noteOf({ mean, low, high }: Ratio): string {
  const ratio = `× ${formatNumber(mean)}`
  if (low === undefined || high === undefined) return ratio
  return `${ratio}\n${formatNumber(low)}–${formatNumber(high)}`
}
