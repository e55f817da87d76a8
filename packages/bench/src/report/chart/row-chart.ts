import { readFileSync } from 'node:fs'
import type { ChartOptions } from './charts.js'
import {
  drawing,
  escapeHtml,
  frame,
  largest,
  plotTop,
  px,
  seriesClass,
  type Scales,
} from './frame.js'

/** A piece of a row: from, to, and which kind it is. */
export interface Piece {
  readonly from: number
  readonly to: number
  /** Index of its kind. */
  readonly kind: number
}

/** A row of pieces. */
export interface Row {
  /** Written beside it, or alone as a heading where there are no pieces; none: the rows have no names. */
  readonly name?: string
  readonly pieces: readonly Piece[]
}

/** What a chart of rows shows. */
export interface RowChartOptions extends Omit<ChartOptions, 'y'> {
  /** The kinds of pieces, by index. */
  readonly kinds: readonly string[]
  readonly rowHeight: number
}

/** Rows below each other, each with pieces along the same axis: a Gantt chart, or stacked bars. */
export const rowChart = (options: RowChartOptions, rows: readonly Row[]): string =>
  frame(...parts(options, rows))

/** The same as a picture of its own, which pages in Markdown can show; light or dark as its reader's system is. */
export function rowPicture(options: RowChartOptions, rows: readonly Row[]): string {
  const svg = drawing(...parts(options, rows))
  return `${svg.replace('>', `>\n<style>\n${chartStyle()}</style>`)}\n`
}

function parts(options: RowChartOptions, rows: readonly Row[]) {
  const { caption, kinds, rowHeight, isWide = false } = options
  const max = largest(rows.flatMap(({ pieces }) => pieces.map(({ to }) => to)))
  const named = rows.filter(({ pieces }) => pieces.length > 0)
  const longest = largest(named.map(({ name = '' }) => name.length))
  const height = Math.max(rowHeight, rowHeight * rows.length)
  const left = longest === 0 ? 14 : 14 + 7 * longest
  const draw = ({ x }: Scales) =>
    rows
      .map((row, index) => {
        const top = plotTop + index * rowHeight
        const isHeading = row.pieces.length === 0
        const [x0, kind] = isHeading ? [0, 'class="title"'] : [left - 8, 'text-anchor="end"']
        const label =
          row.name === undefined
            ? ''
            : `<text x="${x0}" y="${px(top + rowHeight / 2 + 4)}" ${kind}>${escapeHtml(row.name)}</text>`
        return `${label}${row.pieces.map((piece) => bar(piece, x, top, rowHeight)).join('')}`
      })
      .join('\n')
  return [{ caption, x: { ...options.x, max }, names: kinds, height, left, isWide }, draw] as const
}

function bar({ from, to, kind }: Piece, x: Scales['x'], top: number, rowHeight: number): string {
  const size = `width="${px(Math.max(0.5, x(to) - x(from)))}" height="${px(0.8 * rowHeight)}"`
  return `<rect class="area ${seriesClass(kind)}" x="${px(x(from))}" y="${px(top + 0.1 * rowHeight)}" ${size}/>`
}

/** A style sheet of the package, in `data/NAME.css`. */
export const readStyle = (name: string): string =>
  readFileSync(new URL(`../../../data/${name}.css`, import.meta.url), 'utf8')

/** The style of charts: the colours of the web page (`packages/web/src/page/styles`), light or dark. */
export const chartStyle = (): string => readStyle('charts')
