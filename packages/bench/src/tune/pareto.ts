import type { SimulationResult } from '../simulate/simulation-result.js'

/** The criteria for policies; higher is better. */
const objectives: readonly ((result: SimulationResult) => number)[] = [
  ({ summary }) => summary.goodput?.share ?? 0,
  ({ summary }) => summary.outputTokensPerSecond,
  ({ summary }) => -(summary.ttftMs?.p99 ?? Infinity),
  ({ summary }) => -(summary.itlMs?.p99 ?? Infinity),
]

/** Smaller differences than this share of a value are none. */
const noticeable = 0.005

/**
 * The Pareto front, best first: the best by rank, and the results that none before them dominates. Of results
 * that are equal in every criterion, only the first is kept; what has less than half the best goodput is no choice.
 */
export function paretoFront(results: readonly SimulationResult[]): SimulationResult[] {
  const front: SimulationResult[] = []
  // By rank, as results that are nearly equal may beat each other in a circle.
  const goodput = (result: SimulationResult): number => objectives[0]?.(result) ?? 0
  for (const one of ranked(distinct(results))) {
    if (goodput(one) < goodput(front[0] ?? one) / 2) break
    if (!front.some((better) => dominates(better, one))) front.push(one)
  }
  return front
}

/** Without items that equal an earlier one in every compared figure. */
export function distinct(results: readonly SimulationResult[]): SimulationResult[] {
  const keyOf = (result: SimulationResult) => objectives.map((of) => of(result)).join(' ')
  const seen = new Set<string>()
  return results.filter((result) => {
    const key = keyOf(result)
    return !seen.has(key) && seen.add(key)
  })
}

/** By goodput, then TTFT p99. */
export function ranked(results: readonly SimulationResult[]): SimulationResult[] {
  const [goodput, , ttft] = objectives
  return results.toSorted(
    (a, b) => (goodput?.(b) ?? 0) - (goodput?.(a) ?? 0) || (ttft?.(b) ?? 0) - (ttft?.(a) ?? 0),
  )
}

function dominates(one: SimulationResult, other: SimulationResult): boolean {
  let isBetter = false
  for (const of of objectives) {
    const [its, others] = [of(one), of(other)]
    const margin = noticeable * Math.abs(others)
    if (its < others - margin) return false
    if (its > others + margin) isBetter = true
  }
  return isBetter
}
