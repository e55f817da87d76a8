import type { ActivitySpan } from '@cllm/core'

/** Pixels of a row, and left of it for its name. */
const rowHeight = 18
const labelWidth = 58
/** Pixels that a time below it needs at least. */
const labelPixels = 48
/** Rows for requests that wait, at most. */
const mostWaits = 8

/** What a picture of the slots is drawn from; times are milliseconds of one clock. */
export interface GanttPicture {
  /** The slots that have a row, by their numbers. */
  readonly slots: readonly number[]
  readonly spans: readonly ActivitySpan[]
  readonly fromMs: number
  readonly untilMs: number
  /** The request that is pointed out. */
  readonly chosen?: string | undefined
}

/** A span where it was drawn. */
export interface DrawnSpan {
  readonly span: ActivitySpan
  readonly x: number
  readonly y: number
  readonly width: number
}

/** The height of a picture in pixels: a row for each slot, some for the queue, and the time. */
export const ganttHeight = (rows: number): number => rows * rowHeight + 20

/** How many rows the spans of a picture take: those of the slots, and one or more of the queue. */
export const rowsOf = ({ slots }: GanttPicture, placed: readonly DrawnSpan[]): number =>
  placed.reduce((most, { y }) => Math.max(most, y / rowHeight + 1), slots.length + 1)

/** Puts spans in their places: slots from above, then waits, each in the first row that is free. */
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

/** The span at a place of the picture. */
export const spanAt = (placed: readonly DrawnSpan[], x: number, y: number) =>
  placed.findLast(
    (each) => x >= each.x && x <= each.x + each.width && y >= each.y && y < each.y + rowHeight,
  )?.span

/** The request that began this many places after the chosen one; of none, the one that began last. */
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

/** Looks up each colour once for a picture: that takes longer than drawing with it. */
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
