import { useLayoutEffect, useRef } from 'preact/hooks'
import { besideChosen, drawGantt, ganttHeight, placeSpans, rowsOf, spanAt } from './draw-gantt.js'
import type { GanttPicture } from './draw-gantt.js'

const kinds = [
  ['prefill', 'prompt'],
  ['decode', 'answer'],
  ['wait', 'waiting'],
  ['pause', 'stalled: has a slot, not in the step'],
] as const

const steps: Readonly<Record<string, number>> = { ArrowLeft: -1, ArrowRight: 1 }

interface GanttProps {
  readonly picture: GanttPicture
  readonly label: string
  /** Called with the id of the request that the user chose, or undefined. */
  readonly onChoose: (id: string | undefined) => void
}

/** A Gantt chart of the slots: a click or the arrow keys choose a request. Tables beside it have the same data. */
export function Gantt({ picture, label, onChoose }: GanttProps) {
  const canvas = useRef<HTMLCanvasElement>(null)
  const rows = useRef(0)
  const placed = useRef<ReturnType<typeof placeSpans>>([])
  // Before the first paint: the canvas has a default height until then, and the content below would jump.
  useLayoutEffect(() => {
    const { current } = canvas
    if (current === null) return
    const width = current.clientWidth
    placed.current = placeSpans(picture, width)
    // Never shrinks, so that the content below does not jump.
    rows.current = Math.max(rows.current, rowsOf(picture, placed.current))
    const height = ganttHeight(rows.current)
    current.style.height = `${height}px`
    drawGantt(current, picture, placed.current, width, height)
  }, [picture])
  return (
    <figure>
      <div
        tabIndex={0}
        role="group"
        aria-label="Slots over time: the arrow keys choose a request"
        onKeyDown={({ key }) => {
          const by = steps[key]
          const id = by === undefined ? undefined : besideChosen(picture, by)
          if (id !== undefined || key === 'Escape') onChoose(id)
        }}
      >
        <canvas
          ref={canvas}
          class="gantt"
          role="img"
          aria-label={label}
          onClick={(event) => {
            const span = spanAt(placed.current, event.offsetX, event.offsetY)
            if (span !== undefined) onChoose(span.id)
          }}
        />
      </div>
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
