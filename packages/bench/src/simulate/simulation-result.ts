import type {
  FleetOptions,
  SimulatedEncodes,
  SimulatedLimits,
  SimulationReport,
} from '@cllm/simulation'
import type { RunRecord } from '../metrics/run-record.js'
import type { RunResult } from '../report/run-result.js'
import type { StepBucket } from '../report/step-history.js'

/** What was simulated, apart from the policy. */
export interface SimulatedSetup extends Omit<SimulatedLimits, 'encodes' | 'tools'> {
  /** The machine's costs: a built-in model, or a file of `cllm bench calibrate`. */
  readonly cost: { readonly name: string; readonly about: string }
  /** How long a pass of the draft model takes, as a share of the model's; absent: there is none. */
  readonly draftShare?: number
  /** The images of requests; absent: there are none. */
  readonly images?: SimulatedImages
  readonly machines: number
  /** Models of which not all are in memory; absent: there is one. */
  readonly models?: { readonly scheduler: string; readonly maxLoaded: number }
  /** The router, with its options as JSON after a colon. */
  readonly router: string
  /** What happens to several machines; absent: nothing. */
  readonly fleet?: FleetSetup
}

/** Images of a simulated load: which share of the requests has one, of how many tokens, and what encoding it costs. */
export interface SimulatedImages extends SimulatedEncodes {
  readonly share: number
  readonly tokens: number
}

/** What happens to the machines of a simulation, and how late their fronts see it. */
export interface FleetSetup extends Required<
  Pick<FleetOptions, 'fronts' | 'viewAgeMs' | 'deaths' | 'drains'>
> {
  /** The slowest machine takes this many times as long as the fastest; the others lie between. */
  readonly spread: number
}

/** One policy's simulation: what `cllm simulate --json` prints as a line. */
export interface SimulationResult
  extends
    SimulatedSetup,
    Omit<SimulationReport, 'results' | 'prefillTokens'>,
    Pick<RunResult, 'schema' | 'load' | 'dataset' | 'seed' | 'summary' | 'warnings'> {
  readonly kind: 'simulation'
  readonly policy: string
  readonly policyOptions: Readonly<Record<string, unknown>>
  readonly requests: number
  /** Failures by their error's code. */
  readonly failures: Readonly<Record<string, string>>
  /** How long the simulation really took. */
  readonly wall_ms: number
}

/** A simulation with its requests and what the steps were made of. */
export interface SimulatedRun {
  readonly result: SimulationResult
  readonly records: readonly RunRecord[]
  readonly steps: readonly StepBucket[]
}
