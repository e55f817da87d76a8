import type {
  ChatMessage,
  Clock,
  Engine,
  EngineStatistics,
  GenerateRequest,
  PromptMedia,
  RequestEvent,
  RouterPolicy,
} from '@cllm/core'
import type { MachineModel } from '../machine.js'

/** The machines of a simulation, and what happens to them. */
export interface FleetOptions {
  /** Machines that share the load; default 1. */
  readonly machines?: number
  /** The machine, or that of each number for unequal ones. */
  readonly machine: MachineModel | ((index: number) => MachineModel)
  /** Makes the router of each front. Default: `prefix-wait`. */
  readonly router?: () => RouterPolicy
  /** Processes that place requests, in turns, each with a router and views of its own; default 1. */
  readonly fronts?: number
  /** Milliseconds after which a front sees what happened on a machine; default 0. */
  readonly viewAgeMs?: number
  /**
   * Share of the machines that die each minute, drawn by the seed; default 0. What is on them goes on
   * elsewhere, after the tokens so far are computed again.
   */
  readonly deaths?: number
  /** Milliseconds until the fronts notice a death; default 1,500. */
  readonly noticeMs?: number
  /** Milliseconds until a dead machine is back, empty; default 30,000. */
  readonly restartMs?: number
  /** Machines that take no new requests from a time on. */
  readonly drains?: readonly { readonly machine: number; readonly at: number }[]
}

/** What a request of a simulation asks besides its prompt's tokens. */
export interface SimulatedTask extends Omit<GenerateRequest, 'prompt' | 'id'> {
  /** Images among them; their data is their number of tokens, a space and a name. Needs `encodes`. */
  readonly media?: readonly PromptMedia[]
  /** What its prompt's tokens were rendered from, where that matters. */
  readonly messages?: readonly ChatMessage[]
  /** The model that it asks for, where `serve` has several. */
  readonly model?: string
}

/** What a fleet is made with. */
export interface FleetParts extends Omit<FleetOptions, 'machine'> {
  readonly clock: Clock
  readonly slots: number
  readonly seed: number
  readonly createEngine: (index: number) => Engine
  readonly onEvent: (id: string, event: RequestEvent) => void
  /** Whether there is more to serve: machines die only until then. */
  readonly isBusy: () => boolean
}

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
