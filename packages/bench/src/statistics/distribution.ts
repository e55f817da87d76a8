import { mean, quantileSorted, standardDeviation } from 'simple-statistics'

/** Summary statistics of a set of values, in their unit. */
export interface Distribution {
  readonly count: number
  readonly mean: number
  readonly deviation: number
  readonly p50: number
  readonly p90: number
  readonly p95: number
  readonly p99: number
  readonly max: number
}

/** Describes values; undefined when there are none. */
export function distributionOf(values: readonly number[]): Distribution | undefined {
  if (values.length === 0) return undefined
  const sorted = [...Float64Array.from(values).sort()]
  const at = (share: number) => quantileSorted(sorted, share)
  return {
    count: sorted.length,
    mean: mean(sorted),
    deviation: standardDeviation(sorted),
    p50: at(0.5),
    p90: at(0.9),
    p95: at(0.95),
    p99: at(0.99),
    max: at(1),
  }
}
