import jstat from 'jstat'
import { mean, sampleStandardDeviation } from 'simple-statistics'

/** A mean and the interval that holds the true one with 95 % confidence. */
export interface Estimate {
  readonly mean: number
  /** Absent with fewer than two values. */
  readonly low?: number
  readonly high?: number
  /** How many runs it is made from. */
  readonly count: number
}

const confidence = 0.95

/**
 * Student's t interval of the mean of a few independent runs; undefined for none. The values are of
 * a kind that is never below 0, and so is the interval.
 */
export function estimate(values: readonly number[]): Estimate | undefined {
  const result = interval(values)
  return result?.low === undefined ? result : { ...result, low: Math.max(0, result.low) }
}

function interval(values: readonly number[]): Estimate | undefined {
  const count = values.length
  if (count === 0) return undefined
  const middle = mean([...values])
  if (count === 1) return { mean: middle, count }
  const quantile = jstat.jStat.studentt.inv((1 + confidence) / 2, count - 1)
  const margin = (quantile * sampleStandardDeviation([...values])) / Math.sqrt(count)
  return { mean: middle, low: middle - margin, high: middle + margin, count }
}

/**
 * The ratio of two figures that were measured in the same rounds, so that a slow spell of the machine
 * weighs on both: the geometric mean of the rounds' ratios, its interval by t on their logarithms.
 */
export function estimateRatio(
  values: readonly number[],
  baseline: readonly number[],
): Estimate | undefined {
  const logarithms = values.flatMap((value, round) => {
    const ratio = value / (baseline[round] ?? NaN)
    return Number.isFinite(ratio) && ratio > 0 ? [Math.log(ratio)] : []
  })
  const result = interval(logarithms)
  if (result === undefined) return undefined
  const { mean: middle, low, high, count } = result
  const limits =
    low === undefined || high === undefined ? {} : { low: Math.exp(low), high: Math.exp(high) }
  return { mean: Math.exp(middle), ...limits, count }
}
