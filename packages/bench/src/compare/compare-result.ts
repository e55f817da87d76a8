import type { schemaVersion } from '../report/run-result.js'
import type { ComparedLoad } from './compare-runs.js'
import type { MachineState } from './machine-watch.js'

/** A comparison: the last line that \`--json\` prints. */
export interface CompareResult {
  readonly schema: typeof schemaVersion
  readonly kind: 'compare'
  readonly seed: number
  readonly baseline: string
  readonly rounds: number
  readonly machine: MachineState
  readonly loads: readonly ComparedLoad[]
  readonly warnings: readonly string[]
}
