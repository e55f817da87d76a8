import type { JSX } from 'preact'
import { formatMs } from '../parts/format.js'

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
