import type { JSX } from 'preact'
import { formatMs } from './format.js'

/** A line of a chart. */
export interface Series {
  readonly name: string
  /** A class of the style sheet that has its colour. */
  readonly kind: string
  readonly values: readonly number[]
}

/** Lines above each other over time; each value is added to those of the series before. */
export function StackedChart({
  series,
  label,
  unit,
}: {
  readonly series: readonly Series[]
  /** What it shows, for who cannot see it. */
  readonly label: string
  readonly unit: string
}): JSX.Element {
  const count = Math.max(2, ...series.map(({ values }) => values.length))
  const sums: number[] = Array.from({ length: count }, () => 0)
  const layers = series.map(({ kind, values }) => {
    const before = [...sums]
    for (const [index, value] of values.entries()) sums[index] = (sums[index] ?? 0) + value
    return { kind, before, after: [...sums] }
  })
  const top = Math.max(1, ...sums)
  const point = (value: number, index: number): string =>
    `${((100 * index) / (count - 1)).toFixed(2)},${(40 - (40 * value) / top).toFixed(2)}`
  return (
    <figure>
      <svg class="chart" viewBox="0 0 100 40" preserveAspectRatio="none" role="img">
        <title>{label}</title>
        {layers.map(({ kind, before, after }) => (
          <polygon
            key={kind}
            class={kind}
            points={[...after.map(point), ...before.map(point).reverse()].join(' ')}
          />
        ))}
      </svg>
      <figcaption class="legend">
        {series.map(({ name, kind }) => (
          <span key={kind}>
            <i class={`swatch ${kind}`} /> {name}
          </span>
        ))}
        <span class="dim">
          up to {Math.round(top)} {unit}
        </span>
      </figcaption>
    </figure>
  )
}

/** A line of the chart. */
export interface CdfSeries {
  readonly name: string
  /** Rising. */
  readonly values: readonly number[]
}

/** Values are cut at this share of all: the last ones would squeeze the others. */
const shownShare = 0.98

/** How many values are at most how large: a line that is further left is better. */
export function CdfChart({
  title,
  series,
}: {
  readonly title: string
  readonly series: readonly CdfSeries[]
}): JSX.Element {
  const ends = series.map(({ values }) => values[Math.floor(shownShare * (values.length - 1))] ?? 0)
  const most = Math.max(1, ...ends)
  return (
    <figure>
      <svg class="chart cdf" viewBox="0 0 100 50" preserveAspectRatio="none" role="img">
        <title>{`${title} of each policy; the table has the percentiles`}</title>
        {[12.5, 25, 37.5].map((y) => (
          <line key={y} x1="0" x2="100" y1={y} y2={y} />
        ))}
        {series.map(({ name, values }, index) => (
          <polyline key={name} class={`line${index % 4}`} points={pointsOf(values, most)} />
        ))}
      </svg>
      <figcaption class="legend">
        <span>
          {title}, 0 to {formatMs(most)}
        </span>
        {series.map(({ name }, index) => (
          <span key={name}>
            <i class={`swatch line${index % 4}`} /> {name}
          </span>
        ))}
      </figcaption>
    </figure>
  )
}

function pointsOf(values: readonly number[], most: number): string {
  const stride = Math.max(1, Math.floor(values.length / 300))
  const points: string[] = []
  for (let index = 0; index < values.length; index += stride) {
    const x = Math.min(101, (100 * (values[index] ?? 0)) / most)
    const y = 50 - (50 * (index + 1)) / values.length
    points.push(`${x.toFixed(2)},${y.toFixed(2)}`)
  }
  return points.join(' ')
}
