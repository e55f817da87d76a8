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

/** The machines of a simulation, how requests are routed to them, and when machines die or drain. */
export interface FleetOptions {
  /** Machines that share the load; default 1. */
  readonly machines?: number
  /** The machine, or a function of a machine's number (from 0) where machines are unequal. */
  readonly machine: MachineModel | ((index: number) => MachineModel)
  /** Makes the router of each front. Default: `prefix-wait`. */
  readonly router?: () => RouterPolicy
  /**
   * Processes that place requests, each with its own router and its own view of the machines; requests
   * arrive at them in turns. Default 1.
   */
  readonly fronts?: number
  /** Milliseconds until a machine's report reaches the fronts; default 0. */
  readonly viewAgeMs?: number
  /**
   * Share of the machines that die each minute, drawn by the seed; default 0. A dead machine's requests go
   * on at other machines, which compute prompt and answer so far again.
   */
  readonly deaths?: number
  /** Milliseconds until the fronts notice a death; default 1,500. */
  readonly noticeMs?: number
  /** Milliseconds until a dead machine is back, with an empty cache; default 30,000. */
  readonly restartMs?: number
  /** Machines that take no new requests from the millisecond `at` on. */
  readonly drains?: readonly { readonly machine: number; readonly at: number }[]
}

/** A request of a simulation, without its id and its prompt's tokens. */
export interface SimulatedTask extends Omit<GenerateRequest, 'prompt' | 'id'> {
  /** Images of the prompt. An image's data is its number of tokens, a space and a name. Needs `encodes`. */
  readonly media?: readonly PromptMedia[]
  /** The messages that the prompt was rendered from, for policies that look at them. */
  readonly messages?: readonly ChatMessage[]
  /** The model that the request asks for, where `serve` has several. */
  readonly model?: string
}

/** The options of a fleet, and what the simulation gives it. */
export interface FleetParts extends Omit<FleetOptions, 'machine'> {
  readonly clock: Clock
  readonly slots: number
  readonly seed: number
  readonly createEngine: (index: number) => Engine
  readonly onEvent: (id: string, event: RequestEvent) => void
  /** Whether requests are left: afterwards no machine dies. */
  readonly isBusy: () => boolean
}

/** What the simulation gives to the service that `serve` makes. */
export type ServiceParts = Pick<FleetParts, 'clock' | 'createEngine' | 'onEvent'>

/** Serves the requests of a simulation: one engine, a fleet, or a stranger's own service. */
export interface RequestService {
  /** How many engines can compute at the same time. */
  readonly size: number
  /** The engines that are running now. */
  readonly engines: Iterable<Engine>
  /** How often a model was unloaded for another one; absent where there is only one model. */
  readonly swaps?: number
  /** Called when a request arrives. */
  submit(id: string, tokens: readonly number[], task: SimulatedTask): void
  /** Called when a request's client cancels. */
  cancel(id: string): void
  /** Statistics of every engine, those that have ended included. */
  statistics(): readonly EngineStatistics[]
}
