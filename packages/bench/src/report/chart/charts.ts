import { mean } from 'simple-statistics'
import { escapeHtml, frame, largest, px, seriesClass, type Axis } from './frame.js'

/** A point of a chart, in its axes' units. */
export type Point = readonly [x: number, y: number]

/** A named series of points, in the order of `x`. */
export interface Series {
  readonly name: string
  readonly points: readonly Point[]
}

/** What all charts have. */
export interface ChartOptions {
  readonly caption: string
  readonly x: Omit<Axis, 'max'>
  readonly y: Omit<Axis, 'max'>
  readonly isWide?: boolean
}

/** The options of a frame around these points. */
const around = (
  { x, y, ...options }: ChartOptions,
  series: readonly { readonly name: string }[],
  points: readonly Point[],
) => ({
  ...options,
  x: { ...x, max: largest(points.map(([value]) => value)) },
  y: { ...y, max: y.isShare === true ? 1 : largest(points.map(([, value]) => value)) },
  names: series.map(({ name }) => name),
})

/** A line for each series, in steps: a value holds until the next. */
export function stepChart(options: ChartOptions, series: readonly Series[]): string {
  const points = series.flatMap((one) => one.points)
  return frame(around(options, series, points), ({ x, y }) =>
    series
      .map(({ name, points: own }, index) => {
        const steps = own.map(
          ([a, b], at) => `${at === 0 ? 'M' : 'H'}${px(x(a))}${at === 0 ? ' ' : 'V'}${px(y(b))}`,
        )
        return `<path class="line ${seriesClass(index)}" d="${steps.join('')}"><title>${escapeHtml(name)}</title></path>`
      })
      .join('\n'),
  )
}

/** A group of points, such as the runs of a load. */
export interface PointGroup {
  readonly label: string
  readonly points: readonly Point[]
}

/** The points of each series in groups, with a line through the groups' means. */
export function scatterChart(
  options: ChartOptions,
  series: readonly { readonly name: string; readonly groups: readonly PointGroup[] }[],
): string {
  const points = series.flatMap(({ groups }) => groups.flatMap((group) => group.points))
  return frame(around(options, series, points), ({ x, y }) =>
    series
      .map(({ name, groups }, index) => {
        const shade = seriesClass(index)
        const dots = groups.flatMap(({ label, points: own }) =>
          own.map(
            ([a, b]) =>
              `<circle class="dot ${shade}" cx="${px(x(a))}" cy="${px(y(b))}" r="4"><title>${escapeHtml(`${name}, ${label}`)}</title></circle>`,
          ),
        )
        const means = groups.map(({ label, points: own }) => ({ label, at: meanOf(own) }))
        const path = means.map(
          ({ at }, order) => `${order === 0 ? 'M' : 'L'}${px(x(at[0]))} ${px(y(at[1]))}`,
        )
        const labels = means.map(
          ({ label, at }) =>
            `<text x="${px(x(at[0]))}" y="${px(y(at[1]) - 9)}" text-anchor="${x(at[0]) > 420 ? 'end' : 'start'}">${escapeHtml(label)}</text>`,
        )
        return `<path class="line ${shade}" d="${path.join('')}"/>${dots.join('')}${labels.join('')}`
      })
      .join('\n'),
  )
}

/** Areas on top of each other; all series have the same `x`. */
export function areaChart(options: ChartOptions, series: readonly Series[]): string {
  const first = series[0]?.points ?? []
  const sums = first.map(([at], index): Point => [
    at,
    series.reduce((sum, { points }) => sum + (points[index]?.[1] ?? 0), 0),
  ])
  return frame(around(options, series, sums), ({ x, y }) => {
    const below = first.map(() => 0)
    const areas = series.map(({ points }, index) => {
      const lower = [...below]
      for (const [at, [, value]] of points.entries()) below[at] = (below[at] ?? 0) + value
      const end = (at: number) => px(x((first[at + 1] ?? first[at])?.[0] ?? 0))
      const up = points.map(
        ([a], at) => `${at === 0 ? 'M' : 'L'}${px(x(a))} ${px(y(below[at] ?? 0))}H${end(at)}`,
      )
      const back = points.map(([a], at) => `L${end(at)} ${px(y(lower[at] ?? 0))}H${px(x(a))}`)
      return `<path class="area ${seriesClass(index)}" d="${up.join('')}${back.toReversed().join('')}Z"/>`
    })
    return areas.join('\n')
  })
}

const meanOf = (points: readonly Point[]): Point => [
  mean(points.map(([a]) => a)),
  mean(points.map(([, b]) => b)),
]
