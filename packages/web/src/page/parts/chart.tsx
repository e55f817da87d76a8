import { areaChart, type ChartOptions, type Series, stepChart } from '@cllm/bench/charts'
import { useMemo, useRef, useState } from 'preact/hooks'
import { download, downloadBlob } from './download.js'

/** The place of a pointer in a chart. */
interface Place {
  /** Pixels from the left of the drawing; `height` is the drawing's, in pixels. */
  readonly left: number
  readonly height: number
  readonly x: number
}

/** Formats the values of each axis. */
type Format = Readonly<Record<'x' | 'y', (value: number) => string>>

const steps: Readonly<Record<string, number>> = { ArrowLeft: -1, ArrowRight: 1 }

interface ChartProps {
  readonly kind: 'steps' | 'areas'
  readonly options: ChartOptions
  readonly series: readonly Series[]
  readonly format: Format
}

/**
 * A chart of `@cllm/bench`'s reports. It shows the values below a pointer, or at a place that the arrow keys move,
 * and can be downloaded.
 */
export function Chart({ kind, options, series, format }: ChartProps) {
  const plot = useRef<HTMLDivElement>(null)
  const [place, setPlace] = useState<Place>()
  const html = useMemo(
    () => (kind === 'steps' ? stepChart : areaChart)(options, series),
    [kind, options, series],
  )
  const drawing = () => plot.current?.querySelector<SVGSVGElement>('svg[data-plot]')
  /** Moves to this share of the drawing's width; hides the values outside of the axes. */
  const go = (share: number): void => {
    const svg = drawing()
    const [from = 0, to = 1, max = 1] = (svg?.dataset['plot'] ?? '').split(' ').map(Number)
    if (!svg || share < from || share > to) return setPlace(undefined)
    const { width, height } = svg.getBoundingClientRect()
    setPlace({ left: share * width, height, x: (max * (share - from)) / (to - from) })
  }
  const move = (by: number): void => {
    const width = plot.current?.clientWidth ?? 1
    go(place === undefined ? 0.5 : place.left / width + by / 50)
  }
  const { caption } = options
  const savePng = async (): Promise<void> => {
    const svg = drawing()
    if (svg) downloadBlob(`${caption}.png`, await toPng(svg))
  }
  const saveCsv = (): void => download(`${caption}.csv`, toCsv(options.x.title, series))
  const files = [['PNG', () => void savePng()] as const, ['CSV', saveCsv] as const]
  return (
    <div class="chart">
      <div class="save">
        {files.map(([kind, save]) => (
          <button
            key={kind}
            type="button"
            class="bare"
            aria-label={`Save ${caption} as ${kind}`}
            onClick={save}
          >
            {kind}
          </button>
        ))}
      </div>
      <div
        ref={plot}
        tabIndex={0}
        role="group"
        aria-label={`${caption}: the arrow keys read its values`}
        onPointerMove={(event) => {
          const { left, width } = event.currentTarget.getBoundingClientRect()
          go((event.clientX - left) / width)
        }}
        onPointerLeave={() => setPlace(undefined)}
        onBlur={() => setPlace(undefined)}
        onKeyDown={({ key }) => steps[key] !== undefined && move(steps[key])}
        // Safe: this file makes it, of escaped names and numbers.
        dangerouslySetInnerHTML={{ __html: html }}
      />
      {place !== undefined && (
        <Values
          {...{ place, series, format }}
          isRight={place.left > (plot.current?.clientWidth ?? 0) / 2}
        />
      )}
    </div>
  )
}

interface ValuesProps extends Pick<ChartProps, 'series' | 'format'> {
  readonly place: Place
  readonly isRight: boolean
}

function Values({ place: { left, height, x }, series, format, isRight }: ValuesProps) {
  const side = isRight ? { right: `calc(100% - ${left - 8}px)` } : { left: `${left + 8}px` }
  return (
    <>
      <div class="cursor" style={{ left: `${left}px`, bottom: 0, height: `${height}px` }} />
      <div class="values" role="status" style={{ ...side, bottom: `${height / 2}px` }}>
        <strong>{format.x(x)}</strong>
        {series.map(({ name, points }) => {
          const value = points.findLast(([at]) => at <= x)?.[1] ?? 0
          return (
            <span key={name}>
              {name}: {format.y(value)}
            </span>
          )
        })}
      </div>
    </>
  )
}

/** CSV with a row for each point of each series. */
function toCsv(x: string, series: readonly Series[]): string {
  const quoted = (text: string): string => `"${text.replaceAll('"', '""')}"`
  const rows = series.flatMap(({ name, points }) =>
    points.map(([at, value]) => `${quoted(name)},${at},${value}`),
  )
  return [`series,${quoted(x)},value`, ...rows, ''].join('\n')
}

/** Pixels of a picture per unit of the drawing, for sharp screens and print. */
const scale = 2

const styles = ['color', 'fill', 'stroke', 'stroke-width', 'stroke-dasharray', 'opacity', 'font']

/** Renders a drawing as PNG, in its colours on the page. */
async function toPng(svg: SVGSVGElement): Promise<Blob> {
  const { width, height } = svg.viewBox.baseVal
  const copy = svg.cloneNode(true) as SVGSVGElement
  const originals = [svg, ...svg.querySelectorAll<SVGElement>('*')]
  const copies = [copy, ...copy.querySelectorAll<SVGElement>('*')]
  for (const [index, original] of originals.entries()) {
    const style = getComputedStyle(original)
    for (const name of styles) {
      copies[index]?.style.setProperty(name, style.getPropertyValue(name))
    }
  }
  copy.setAttribute('width', String(width * scale))
  copy.setAttribute('height', String(height * scale))
  const image = new Image()
  const source = new XMLSerializer().serializeToString(copy)
  image.src = `data:image/svg+xml,${encodeURIComponent(source)}`
  await image.decode()
  const canvas = new OffscreenCanvas(width * scale, height * scale)
  const context = canvas.getContext('2d')!
  context.fillStyle = getComputedStyle(document.body).backgroundColor
  context.fillRect(0, 0, canvas.width, canvas.height)
  context.drawImage(image, 0, 0)
  return await canvas.convertToBlob()
}
