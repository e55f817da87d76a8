import type { Engine, EngineStatistics } from '@cllm/core'
import type { FleetParts, SimulatedTask } from './fleet/simulated-fleet.js'

/** What a service of a simulation is made with. */
export type ServiceParts = Pick<FleetParts, 'clock' | 'createEngine' | 'onEvent'>

/** What serves the requests of a simulation. */
export interface RequestService {
  /** Engines that compute at a time. */
  readonly size: number
  /** The engines that serve now. */
  readonly engines: Iterable<Engine>
  /** How often a model left memory for another one; absent: there is one. */
  readonly swaps?: number
  /** A request arrives. */
  submit(id: string, tokens: readonly number[], task: SimulatedTask): void
  /** Its client leaves. */
  cancel(id: string): void
  /** Of every engine that there was. */
  statistics(): readonly EngineStatistics[]
}
