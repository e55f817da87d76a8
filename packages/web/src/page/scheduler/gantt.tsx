import type { JSX } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { drawGantt, ganttHeight, type GanttPicture, placeSpans, spanAt } from './draw-gantt.js'

const kinds = [
  ['prefill', 'prompt'],
  ['decode', 'answer'],
  ['wait', 'waits for a slot'],
  ['pause', 'has a slot, and steps went by without it'],
] as const

/** Slots over time. Tables beside it say the same in words. */
export function Gantt({
  picture,
  label,
  onChoose,
}: {
  readonly picture: GanttPicture
  readonly label: string
  readonly onChoose?: (id: string) => void
}): JSX.Element {
  const canvas = useRef<HTMLCanvasElement>(null)
  const placed = useRef<ReturnType<typeof placeSpans>>([])
  useEffect(() => {
    const { current } = canvas
    if (current === null) return
    const width = current.clientWidth
    placed.current = placeSpans(picture, width)
    drawGantt(current, picture, placed.current, width)
  }, [picture])
  return (
    <figure>
      <canvas
        ref={canvas}
        class="gantt"
        role="img"
        aria-label={label}
        style={{ height: `${ganttHeight(picture.slots)}px` }}
        onClick={(event) => {
          const span = spanAt(placed.current, event.offsetX, event.offsetY)
          if (span !== undefined) onChoose?.(span.id)
        }}
      />
      <figcaption class="legend">
        {kinds.map(([kind, text]) => (
          <span key={kind}>
            <i class={`swatch ${kind}`} /> {text}
          </span>
        ))}
      </figcaption>
    </figure>
  )
}
