import type { JSX } from 'preact'

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
