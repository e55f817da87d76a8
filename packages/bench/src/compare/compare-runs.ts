import { defined } from '@cllm/core'
import type { LoadShape } from '../load/load-options.js'
import { type Figure, figures } from '../report/figures.js'
import type { RunResult } from '../report/run-result.js'
import { estimate, type Estimate, estimateRatio } from '../statistics/statistics.js'
import type { MachineState } from './machine-watch.js'

/** The verdict on a ratio and its interval: `noise` if the interval contains 1, `unknown` without one. */
export type Verdict = 'better' | 'worse' | 'noise' | 'unknown'

/** The ratio of a target's figure to the baseline's. */
export interface Ratio extends Estimate {
  readonly verdict: Verdict
}

/** One load: each target's figures and their ratios to the first target's. */
export interface ComparedLoad {
  readonly load: LoadShape
  /** Target, then figure. */
  readonly figures: Readonly<Record<string, Readonly<Record<string, Estimate>>>>
  readonly ratios: Readonly<Record<string, Readonly<Record<string, Ratio>>>>
}

/**
 * Compares the runs of one load.
 *
 * @param runs - each target's runs, in the same order of rounds; the first target is the baseline
 */
export function compareRuns(
  load: LoadShape,
  runs: ReadonlyMap<string, readonly RunResult[]>,
): ComparedLoad {
  const [baseline, ...others] = runs.keys()
  const of = (name: string | undefined, figure: Figure) =>
    (runs.get(name ?? '') ?? []).map(({ summary }) => figure.of(summary) ?? NaN)
  const named = <T>(make: (figure: Figure) => T | undefined): Record<string, T> =>
    defined(Object.fromEntries(figures.map((figure) => [figure.name, make(figure)])))
  const estimated = (name: string) =>
    named((figure) => estimate(of(name, figure).filter((value) => Number.isFinite(value))))
  const compared = (name: string) =>
    named((figure) => ratioOf(of(name, figure), of(baseline, figure), figure))
  return {
    load,
    figures: Object.fromEntries([...runs.keys()].map((name) => [name, estimated(name)])),
    ratios: Object.fromEntries(others.map((name) => [name, compared(name)])),
  }
}

function ratioOf(values: readonly number[], baseline: readonly number[], { better }: Figure) {
  const ratio = estimateRatio(values, baseline)
  return ratio === undefined ? undefined : { ...ratio, verdict: verdictOf(ratio, better) }
}

function verdictOf({ low, high }: Estimate, better: Figure['better']): Verdict {
  if (low === undefined || high === undefined) return 'unknown'
  if (low <= 1 && high >= 1) return 'noise'
  return low > 1 === (better === 'higher') ? 'better' : 'worse'
}

/** A comparison: the last line that \`--json\` prints. */
export interface CompareResult extends Pick<RunResult, 'schema' | 'seed' | 'warnings'> {
  readonly kind: 'compare'
  readonly baseline: string
  readonly rounds: number
  readonly machine: MachineState
  readonly loads: readonly ComparedLoad[]
}
