import { figures, type Figure, formatNumber } from '../figures.js'
import type { Summary } from '../../metrics/summarize.js'
import type { ComparedLoad, Ratio } from '../../compare/compare-runs.js'
import { htmlTable, type Cell } from './html.js'

/** A row of figures: a run, a policy. */
export interface FiguresRow {
  readonly name: string
  readonly summary: Summary
}

const title = ({ name, unit }: Figure) => `${name} ${unit}`

/** A row for each run and a column for each figure that was measured. */
export function figuresTable(rows: readonly FiguresRow[]): string {
  const shown = figures.filter(({ of }) => rows.some(({ summary }) => of(summary) !== undefined))
  const hasFailed = rows.some(({ summary }) => summary.requests.failed > 0)
  const head = ['', 'ok', ...(hasFailed ? ['failed'] : []), ...shown.map(title)]
  return htmlTable(
    head,
    rows.map(({ name, summary }) => [
      name,
      formatNumber(summary.requests.ok),
      ...(hasFailed ? [formatNumber(summary.requests.failed)] : []),
      ...shown.map(({ of }) => formatNumber(of(summary))),
    ]),
  )
}

/** A row for each target; below each figure its ratio to the baseline's, coloured if it is no noise. */
export function comparedTable({ figures: values, ratios }: ComparedLoad): string {
  const shown = figures.filter(({ name }) =>
    Object.values(values).some((own) => own[name] !== undefined),
  )
  const rows = Object.entries(values).map(([target, own]) => [
    target,
    ...shown.map(({ name }): Cell =>
      withRatio(formatNumber(own[name]?.mean), ratios[target]?.[name]),
    ),
  ])
  return htmlTable(['', ...shown.map(title)], rows)
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
