import type { ActivitySpan } from '@cllm/core'

/** Height of a row, and width of its label, in pixels. */
const rowHeight = 18
const labelWidth = 58
/** The least width of a label on the time axis, in pixels. */
const labelPixels = 48
/** The most rows for waiting requests. */
const mostWaits = 8

/** The data of a Gantt chart of the slots; times are milliseconds of one clock. */
export interface GanttPicture {
  /** The numbers of the slots that have a row. */
  readonly slots: readonly number[]
  readonly spans: readonly ActivitySpan[]
  readonly fromMs: number
  readonly untilMs: number
  /** The id of the highlighted request. */
  readonly chosen?: string | undefined
}

/** A span and its place in the chart. */
export interface DrawnSpan {
  readonly span: ActivitySpan
  readonly x: number
  readonly y: number
  readonly width: number
}

/** The height of a chart with this many rows in pixels, the time axis included. */
export const ganttHeight = (rows: number): number => rows * rowHeight + 20

/** The number of rows: one for each slot, and at least one for the queue. */
export const rowsOf = ({ slots }: GanttPicture, placed: readonly DrawnSpan[]): number =>
  placed.reduce((most, { y }) => Math.max(most, y / rowHeight + 1), slots.length + 1)

/** Places spans: slots at the top, waiting requests below, each in the first free row. */
export function placeSpans(picture: GanttPicture, width: number): DrawnSpan[] {
  const { slots, spans, fromMs, untilMs } = picture
  const scale = (width - labelWidth) / (untilMs - fromMs)
  const freeFrom: number[] = Array.from({ length: mostWaits }, () => -Infinity)
  const placed: DrawnSpan[] = []
  const waits = spans.filter(({ kind }) => kind === 'wait').sort((a, b) => a.atMs - b.atMs)
  const rows = new Map<ActivitySpan, number>()
  for (const span of waits) {
    const row = freeFrom.findIndex((until) => until <= span.atMs)
    if (row === -1) continue
    freeFrom[row] = span.untilMs
    rows.set(span, slots.length + row)
  }
  for (const span of spans) {
    const row = span.kind === 'wait' ? rows.get(span) : slots.indexOf(span.slot ?? -1)
    if (row === undefined || row < 0 || span.untilMs < fromMs) continue
    const x = labelWidth + Math.max(0, span.atMs - fromMs) * scale
    const end = labelWidth + Math.min(untilMs - fromMs, span.untilMs - fromMs) * scale
    placed.push({ span, x, y: row * rowHeight, width: Math.max(1, end - x) })
  }
  return placed
}

/** The span at a point of the chart. */
export const spanAt = (placed: readonly DrawnSpan[], x: number, y: number) =>
  placed.findLast(
    (each) => x >= each.x && x <= each.x + each.width && y >= each.y && y < each.y + rowHeight,
  )?.span

/** The request that began this many places after the chosen one; if none is chosen, the last that began. */
export function besideChosen({ spans, chosen }: GanttPicture, by: number): string | undefined {
  const ids = [...new Set(spans.toSorted((a, b) => a.atMs - b.atMs).map(({ id }) => id))]
  const at = chosen === undefined ? -1 : ids.indexOf(chosen)
  return at === -1 ? ids.at(-1) : ids[Math.max(0, Math.min(at + by, ids.length - 1))]
}

/** Draws spans into a canvas of this width in CSS pixels. */
export function drawGantt(
  canvas: HTMLCanvasElement,
  picture: GanttPicture,
  placed: readonly DrawnSpan[],
  width: number,
  height: number,
): void {
  const ratio = devicePixelRatio
  const context = canvas.getContext('2d')
  if (context === null) return
  // Setting a size, even the same one, makes a new canvas.
  const size = [Math.round(width * ratio), Math.round(height * ratio)] as const
  if (canvas.width !== size[0]) canvas.width = size[0]
  if (canvas.height !== size[1]) canvas.height = size[1]
  context.setTransform(ratio, 0, 0, ratio, 0, 0)
  context.clearRect(0, 0, width, height)
  const color = colorsOf(canvas)
  context.font = '11px system-ui, sans-serif'
  context.textBaseline = 'middle'
  context.fillStyle = color.dim
  for (const [row, slot] of picture.slots.entries()) {
    context.fillText(`slot ${slot}`, 0, (row + 0.5) * rowHeight)
  }
  context.fillText('queue', 0, (picture.slots.length + 0.5) * rowHeight)
  drawTime(context, picture, width, height, color.line)
  for (const { span, x, y, width: wide } of placed) {
    context.globalAlpha = picture.chosen === undefined || picture.chosen === span.id ? 1 : 0.35
    context.fillStyle = color[span.kind]
    // A pause and a wait are thin: nothing is computed then.
    const isThin = span.kind === 'pause' || span.kind === 'wait'
    context.fillRect(x, y + (isThin ? 6 : 2), wide, isThin ? 6 : rowHeight - 4)
  }
  context.globalAlpha = 1
}

const colorNames = ['dim', 'line', 'prefill', 'decode', 'wait', 'pause'] as const
type Colors = Readonly<Record<(typeof colorNames)[number], string>>

/** Looks up each colour once for a chart: a lookup takes longer than drawing. */
function colorsOf(canvas: HTMLCanvasElement): Colors {
  const style = getComputedStyle(canvas)
  const colors = colorNames.map((name) => [name, style.getPropertyValue(`--${name}`)])
  return Object.fromEntries(colors) as Colors
}

function drawTime(
  context: CanvasRenderingContext2D,
  { fromMs, untilMs }: GanttPicture,
  width: number,
  height: number,
  line: string,
): void {
  const seconds = (untilMs - fromMs) / 1000
  const most = Math.min(10, (width - labelWidth) / labelPixels)
  const step = [1, 2, 5, 10, 20, 60, 120, 300, 600].find((each) => seconds / each <= most) ?? 1800
  const text = context.fillStyle
  for (let ago = 0; ago <= seconds; ago += step) {
    const x = width - (ago / seconds) * (width - labelWidth)
    context.fillStyle = line
    context.fillRect(x, 0, 1, height - 16)
    context.fillStyle = text
    const label = ago === 0 ? 'now' : `−${ago} s`
    context.fillText(label, Math.min(x, width - context.measureText(label).width), height - 8)
  }
}
