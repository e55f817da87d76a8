import jstat from 'jstat'
import { linearRegression, mean } from 'simple-statistics'
import type { Estimate } from './confidence.js'

const confidence = 0.95

/**
 * The slope of the line through points (x, y) by least squares, with Student's t interval of 95 %;
 * undefined for fewer than three points or when all have one x. The interval holds for errors that
 * are independent of each other: put samples that follow each other closely together first, as
 * {@link blockMeans} does.
 */
export function estimateSlope(
  points: readonly (readonly [x: number, y: number])[],
): Estimate | undefined {
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
export function blockMeans(
  points: readonly (readonly [x: number, y: number])[],
  blocks: number,
): [x: number, y: number][] {
  const size = Math.max(1, Math.floor(points.length / blocks))
  return Array.from({ length: Math.floor(points.length / size) }, (_, index) => {
    const block = points.slice(index * size, (index + 1) * size)
    return [mean(block.map(([x]) => x)), mean(block.map(([, y]) => y))]
  })
}
