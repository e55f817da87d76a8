import { chartStyle, readStyle } from '../chart/row-chart.js'
import { escapeHtml } from '../chart/frame.js'
import type { ComparedLoad, CompareResult, Ratio } from '../../compare/compare-runs.js'
import { figures, formatNumber, measuredOf, numbersOf, textsOf } from '../figures.js'
import { loadName, type MeasuredRun } from '../run-result.js'
import {
  ganttPlot,
  groupedRuns,
  lengthsInWords,
  overviewPlots,
  servicePlot,
  stepPlot,
} from './plots.js'

/** A cell of a table: its text and, in smaller letters below, a note on it. */
export interface Cell {
  readonly text: string
  readonly note?: string
  /** How the note reads: a difference in the good or bad direction, or none. */
  readonly tone?: 'better' | 'worse' | 'plain'
}

/** A table; the first cell of a row names it. */
export function htmlTable(head: readonly string[], rows: readonly (readonly (string | Cell)[])[]) {
  const titles = head.map((title) => `<th scope="col">${escapeHtml(title)}</th>`).join('')
  const body = rows.map((row) => `<tr>${row.map(cell).join('')}</tr>`).join('\n')
  return `<table><thead><tr>${titles}</tr></thead><tbody>${body}</tbody></table>`
}

function cell(content: string | Cell, column: number): string {
  const whole: Cell = typeof content === 'string' ? { text: content } : content
  const { text, note, tone = 'plain' } = whole
  const small = note === undefined ? '' : `<small class="${tone}">${escapeHtml(note)}</small>`
  const [tag, scope] = column === 0 ? ['th', ' scope="row"'] : ['td', '']
  return `<${tag}${scope}>${escapeHtml(text)}${small}</${tag}>`
}

/**
 * A self-contained page without scripts or external resources, for screens, phones and paper; light or
 * dark as the reader's system is.
 */
export function htmlPage(title: string, body: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escapeHtml(title)}</title>
<style>
${chartStyle()}${readStyle('report')}</style>
</head>
<body>
<main>
${body}
</main>
</body>
</html>
`
}

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
  // The last run of every target and load.
  const shown = [...groupedRuns(runs).values()].flatMap((own) => own.slice(-1))
  return shown.flatMap((run) => {
    const name = runName(run.result)
    return textsOf(
      ganttPlot(run, `${name}: one bar per request, at most 500`),
      run.steps !== undefined && stepPlot(run.steps, `${name}: composition of the steps`),
      run.result.summary.tenants.length > 1 && servicePlot(run, `${name}: service by tenant`),
    )
  })
}

/** A row for each run and a column for each figure that was measured. */
function figuresTable(runs: readonly MeasuredRun[]): string {
  const all = runs.map(({ result }) => numbersOf(result.summary))
  const shown = measuredOf(all.map((one) => ({ ...one, failed: one.failed || undefined })))
  return htmlTable(
    ['', ...shown],
    runs.map(({ result }, at) => [
      runName(result),
      ...shown.map((name) => formatNumber(all[at]?.[name])),
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
  return htmlTable(['', ...shown.map(({ name, unit }) => `${name} ${unit}`)], rows)
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
