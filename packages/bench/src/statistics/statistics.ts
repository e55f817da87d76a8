import { entryOf } from '@cllm/core'
import {
  linearRegression,
  mean,
  quantileSorted,
  sampleStandardDeviation,
  standardDeviation,
} from 'simple-statistics'
import jstat from 'jstat'

/** What has the same key, in the order of the keys' first appearance. */
export function groupBy<Item, Key>(items: readonly Item[], keyOf: (item: Item) => Key) {
  const groups = new Map<Key, Item[]>()
  for (const item of items) entryOf(groups, keyOf(item), () => []).push(item)
  return groups
}

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

type Points = readonly (readonly [x: number, y: number])[]

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
 * weighs on both: the geometric mean of the rounds' ratios, its interval by t on their logarithms. Where one of the
 * two is 0 in some round, such a ratio is 0 or infinite: then it is that of the means, without an interval.
 */
export function estimateRatio(
  values: readonly number[],
  baseline: readonly number[],
): Estimate | undefined {
  const rounds = values
    .map((value, round) => [value, baseline[round] ?? NaN] as const)
    .filter((pair) => pair.every(Number.isFinite) && pair.some((value) => value > 0))
  if (rounds.some(([value, base]) => value === 0 || base === 0)) return ratioOfMeans(rounds)
  const result = interval(rounds.map(([value, base]) => Math.log(value / base)))
  if (result === undefined) return undefined
  const { mean: middle, low, high, count } = result
  const limits =
    low === undefined || high === undefined ? {} : { low: Math.exp(low), high: Math.exp(high) }
  return { mean: Math.exp(middle), ...limits, count }
}

function ratioOfMeans(rounds: readonly (readonly [number, number])[]): Estimate | undefined {
  const ratio = mean(rounds.map(([value]) => value)) / mean(rounds.map(([, base]) => base))
  return Number.isFinite(ratio) ? { mean: ratio, count: rounds.length } : undefined
}

/**
 * The slope of the line through points (x, y) by least squares, with Student's t interval of 95 %;
 * undefined for fewer than three points or when all have one x. The interval holds for errors that
 * are independent of each other: put samples that follow each other closely together first, as
 * {@link blockMeans} does.
 */
export function estimateSlope(points: Points): Estimate | undefined {
  const count = points.length
  const middle = count === 0 ? 0 : mean(points.map(([x]) => x))
  const spread = points.reduce((sum, [x]) => sum + (x - middle) ** 2, 0)
  if (count < 3 || spread === 0) return undefined
  const { m, b } = linearRegression(points.map(([x, y]) => [x, y]))
  const residuals = points.reduce((sum, [x, y]) => sum + (y - m * x - b) ** 2, 0)
  const quantile = jstat.jStat.studentt.inv((1 + confidence) / 2, count - 2)
  const margin = quantile * Math.sqrt(residuals / (count - 2) / spread)
  return { mean: m, low: m - margin, high: m + margin, count }
}

/** Splits the points, in their order, into this many blocks and returns the mean of each; fewer blocks for fewer points. */
export function blockMeans(points: Points, blocks: number): [x: number, y: number][] {
  const size = Math.max(1, Math.floor(points.length / blocks))
  return Array.from({ length: Math.floor(points.length / size) }, (_, index) => {
    const block = points.slice(index * size, (index + 1) * size)
    return [mean(block.map(([x]) => x)), mean(block.map(([, y]) => y))]
  })
}
