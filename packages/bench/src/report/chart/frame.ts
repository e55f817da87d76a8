import { scaleLinear, type ScaleLinear } from 'd3-scale'
import { max } from 'simple-statistics'

/** An axis of a chart. It begins at 0, so that noise does not look like a difference. */
export interface Axis {
  readonly title: string
  /** The largest value that is drawn. */
  readonly max: number
  /** Whether values are shares, written as percentages. */
  readonly isShare?: boolean
}

/** What a chart is drawn into. */
export interface FrameOptions {
  /** What the chart shows; also read out in its place. */
  readonly caption: string
  readonly x: Axis
  /** Absent: the chart has rows of its own, and this many pixels of height. */
  readonly y?: Axis
  readonly height?: number
  /** Pixels left of the plot. Default: what the numbers of `y` need. */
  readonly left?: number
  readonly names?: readonly string[]
  readonly isWide?: boolean
}

/** Where values lie, in pixels of the drawing. */
export interface Scales {
  readonly x: ScaleLinear<number, number>
  readonly y: ScaleLinear<number, number>
}

const width = { half: 560, wide: 1120 } as const
/** Pixels above a plot. */
export const plotTop = 18

const room = { top: plotTop, right: 30, bottom: 40 } as const

/** A chart as HTML: caption, legend, and an SVG with axes around what `draw` makes. */
export function frame(options: FrameOptions, draw: (scales: Scales) => string): string {
  const { caption, names = [], isWide = false } = options
  return `<figure class="${isWide ? 'wide' : 'half'}">
<figcaption>${escapeHtml(caption)}</figcaption>
${legend(names)}
<div class="plot">${drawing(options, draw)}</div>
</figure>`
}

/** The SVG of a chart alone. */
export function drawing(options: FrameOptions, draw: (scales: Scales) => string): string {
  const { caption, x, y, isWide = false, height = 240, left = 60 } = options
  const full = isWide ? width.wide : width.half
  const total = height + room.top + room.bottom
  const scales = {
    x: scale(x, [left, full - room.right], y !== undefined),
    y: scale(y ?? { title: '', max: height }, [room.top + height, room.top], y !== undefined),
  }
  const parts = [
    verticals(scales.x, x, room.top, room.top + height),
    ...(y === undefined ? [] : [horizontals(scales.y, y, left, full - room.right)]),
    draw(scales),
  ]
  // Where values of x are, for what follows a pointer: from and to in shares of the width, and the last value.
  const plot = [left / full, 1 - room.right / full, scales.x.domain()[1]].join(' ')
  const found = y === undefined ? '' : ` data-plot="${plot}"`
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${full} ${total}"${found} role="img" aria-label="${escapeHtml(caption)}">
${parts.join('\n')}
</svg>`
}

/** The class with a series' colour and dashes; there are eight colours, then dashed ones. */
export const seriesClass = (index: number): string =>
  `s${index % 8}${index % 16 >= 8 ? ' dashed' : ''}`

/** The largest value, at least 0. */
export const largest = (values: readonly number[]): number => max([0, ...values])

/** A coordinate with a tenth of a pixel. */
export const px = (value: number): string => String(Math.round(value * 10) / 10)

const scale = ({ max }: Axis, range: [number, number], isNice: boolean) => {
  const made = scaleLinear()
    .domain([0, max > 0 ? max : 1])
    .range(range)
  return isNice ? made.nice() : made
}

const written = (value: ScaleLinear<number, number>, { isShare }: Axis, count: number) =>
  isShare === true ? (tick: number) => `${Math.round(100 * tick)} %` : value.tickFormat(count)

function verticals(x: ScaleLinear<number, number>, axis: Axis, top: number, bottom: number) {
  const count = 6
  const format = written(x, axis, count)
  const ticks = x.ticks(count).map((tick) => {
    const at = px(x(tick))
    return `<path class="grid" d="M${at} ${top}V${bottom}"/><text x="${at}" y="${bottom + 16}" text-anchor="middle">${format(tick)}</text>`
  })
  const middle = px((x.range()[0]! + x.range()[1]!) / 2)
  return `${ticks.join('')}<text class="title" x="${middle}" y="${bottom + 34}" text-anchor="middle">${escapeHtml(axis.title)}</text>`
}

function horizontals(y: ScaleLinear<number, number>, axis: Axis, left: number, right: number) {
  const count = 5
  const format = written(y, axis, count)
  const ticks = y.ticks(count).map((tick) => {
    const at = px(y(tick))
    return `<path class="grid" d="M${left} ${at}H${right}"/><text x="${left - 6}" y="${px(y(tick) + 4)}" text-anchor="end">${format(tick)}</text>`
  })
  const middle = px((y.range()[0]! + y.range()[1]!) / 2)
  return `${ticks.join('')}<text class="title" transform="translate(12 ${middle}) rotate(-90)" text-anchor="middle">${escapeHtml(axis.title)}</text>`
}

function legend(names: readonly string[]): string {
  if (names.length === 0) return ''
  const items = names.map(
    (name, index) =>
      `<li><svg viewBox="0 0 18 8" aria-hidden="true"><path class="line ${seriesClass(index)}" d="M0 4H18"/></svg>${escapeHtml(name)}</li>`,
  )
  return `<ul class="legend">${items.join('')}</ul>`
}

/** Escapes text for HTML. */
export function escapeHtml(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}
