import { useMemo } from 'preact/hooks'
import { Chart } from '../parts/chart.js'
import { formatMs, formatShare } from '../parts/format.js'
import type { LabResult } from './run-lab.js'

type ValuesOf = (result: LabResult) => readonly number[]

/** The times that have a curve. */
export const curves: readonly (readonly [caption: string, valuesOf: ValuesOf])[] = [
  ['TTFT', ({ ttfts }) => ttfts],
  ['Longest pause of each answer', ({ longestPauses }) => longestPauses],
]

/** Values are cut at this share of all: the last ones would squeeze the others. */
const shownShare = 0.98
/** The most points of a curve: more would not show. */
const mostPoints = 300

const format = { x: formatMs, y: formatShare }

interface CurvesProps {
  readonly caption: string
  readonly valuesOf: ValuesOf
  readonly results: readonly LabResult[]
}

/** Which share of the requests took at most how long: a line that is further left is better. */
export function Curves({ caption, valuesOf, results }: CurvesProps) {
  const options = useMemo(() => {
    return {
      caption,
      x: { title: 'milliseconds, at most' },
      y: { title: 'share of requests', isShare: true },
    }
  }, [caption])
  const series = useMemo(() => {
    const all = results.map(valuesOf)
    const ends = all.map((each) => each[Math.floor(shownShare * (each.length - 1))] ?? 0)
    const most = Math.max(1, ...ends)
    return results.map(({ policy }, index) => {
      return { name: policy, points: pointsOf(all[index] ?? [], most) }
    })
  }, [results])
  return <Chart kind="steps" {...{ options, series, format }} />
}

/** Rising values with the share of all that are at most that. */
function pointsOf(values: readonly number[], most: number): (readonly [number, number])[] {
  const stride = Math.max(1, Math.floor(values.length / mostPoints))
  return values.flatMap((value, index) => {
    const isShown = value <= most && (index + 1) % stride === 0
    return isShown ? [[value, (index + 1) / values.length] as const] : []
  })
}
