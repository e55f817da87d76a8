import type { Learner } from '../services.js'
import type {
  ArrivalView,
  Plan,
  SchedulerEvent,
  SchedulerState,
  SequenceView,
  TenantService,
} from './scheduler-policy.js'
import type { ModelState } from '../transport.js'

/** The part of a plan that a {@link Batching} decides. */
export type Step = Pick<Plan, 'admit' | 'run' | 'wakeAt'>

/** What a step computes: one of the two halves of a policy. */
export interface Batching extends Learner {
  /**
   * Whether it admits requests in groups and not whenever a slot is free, so that preempting another
   * request would not give any request a slot earlier. Default false.
   */
  readonly inGroups?: boolean
  /**
   * The next step. `next` is the waiting requests in the order in which they are to be admitted; it
   * is computed lazily, so read at most one request more than is admitted, and none while no slot is free.
   */
  plan(state: SchedulerState, next: Iterable<SequenceView>): Step
  /** Learns from what happened. */
  observe?(event: SchedulerEvent): void
}

/** Which waiting request is next: one of the two halves of a policy. */
export interface Order {
  /**
   * All waiting requests, the next one first. Read lazily: an order that ranks or sorts does so when
   * the first request is asked for, so that a plan that admits nothing costs nothing here.
   */
  next(state: SchedulerState): Iterable<SequenceView>
  /**
   * Waiting requests that are refused now, with a reason for the client. Called for every plan, so it
   * must not look at all that wait.
   */
  reject?(state: SchedulerState): Plan['reject']
  /**
   * Running requests that lose their slot to more urgent ones. Called when no slot is free and the
   * batching admits at any time; must not look at all that wait. A preempted request is computed
   * again from its tokens, so name only what is worth it.
   */
  preempt?(state: SchedulerState): readonly SequenceView[]
  /**
   * The running request that is preempted when the shared pool of KV cells is full. Default: the one that was admitted
   * last.
   */
  victim?(state: SchedulerState): SequenceView | undefined
  /**
   * How many free slots are kept for programs that pause, whose next requests have not come yet. Asked when requests
   * both wait and run.
   */
  hold?(state: SchedulerState): number
  /** See `SchedulerPolicy`. */
  arrivalRank?(request: ArrivalView): number
  /** Learns from what happened. */
  observe?(event: SchedulerEvent): void
  /** See `SchedulerPolicy`. */
  onServedElsewhere?(services: readonly TenantService[]): void
}

/** A request that needs a worker, as a router sees it. */
export interface RoutedRequest {
  readonly id: string
  /** The tenant of the request; empty where requests have no tenants. */
  readonly tenant: string
  /** The conversation of the request, if its client names one. */
  readonly session: string | undefined
  /** Higher is more urgent. */
  readonly priority: number
  /** Tokens of its prompt; estimated where the front has only the text. */
  readonly promptTokens: number
  /** Tokens that its answer may have. */
  readonly maxTokens: number
  /**
   * A hash for each whole block of its prompt and all that comes before it: two prompts with the same
   * hash at a place are the same up to there. What must not be shared, such as between tenants, has
   * other hashes.
   */
  readonly blocks: readonly number[]
  /**
   * Where each of its images and sounds ends, in tokens of the prompt, in rising order. A worker that has the prompt
   * cached up to there has probably cached the encoding, too; the other files are encoded before the prompt is computed.
   */
  readonly files: readonly number[]
  /** How often it lost its worker; 0 for a request that has none yet. */
  readonly moves: number
}

/**
 * A worker that can take requests, as one front knows it for one request: what the worker reported
 * last, and what this front has placed on it since. Times are milliseconds.
 */
export interface WorkerView {
  readonly id: string
  /** Time since the worker's report. */
  readonly ageMs: number
  /** Fronts that place requests on the workers, this one included. */
  readonly fronts: number
  /** Requests that the other fronts have probably placed on the workers and no report shows yet. */
  readonly unseen: number
  /** Requests that it can compute at once. */
  readonly slots: number
  /** Requests in flight on it. */
  readonly open: number
  /** Prompt tokens of these requests, computed or not. */
  readonly openTokens: number
  /** Prompt tokens of these requests that are still to be computed. */
  readonly backlogTokens: number
  /** Images and sounds of these requests that are still to be encoded, one at a time and beside the steps. */
  readonly backlogFiles: number
  /** Time per prompt token under its present load. */
  readonly tokenMs: number
  /** Time per token of an answer. */
  readonly stepMs: number
  /** Predicted time until it begins to compute this request's prompt, encoding of files included. */
  readonly waitMs: number
  /** Leading tokens of this request's prompt that it has probably cached. */
  readonly cachedTokens: number
  /** Predicted TTFT of this request: the wait, and the prompt tokens that are not cached. */
  readonly firstTokenMs: number
  /** When a request was last placed on it, by the front's clock and knowledge; -Infinity: never. */
  readonly placedAt: number
}

/** Where a request goes. */
export type Placement =
  /** On the worker with this id. */
  | { readonly worker: string }
  /** On none yet: the router is asked again after this many milliseconds, at least 5. */
  | { readonly holdMs: number }
  /** On none: the client gets this reason, and may retry after `retryMs`. */
  | { readonly refuse: string; readonly retryMs?: number }

/**
 * Chooses the worker of each request. A front has one router, and a cluster has one in each of its
 * fronts: they see the same workers, each a little late, and not each other.
 *
 * Placing is synchronous and takes microseconds. It must depend only on its arguments and the calls before, not on a
 * clock, randomness or other input, so that the same code can be simulated: two routers that get the same calls give
 * the same answers.
 */
export interface RouterPolicy {
  /**
   * Places a request.
   *
   * @param workers the workers that may take it, in the order of their ids; at least one
   * @param now the front's clock in milliseconds
   */
  place(request: RoutedRequest, workers: readonly WorkerView[], now: number): Placement
}

/** A request or another call that waits for its model. Times are milliseconds of the server's clock. */
export interface WaitingForModel {
  /** When it began to wait. */
  readonly since: number
  /** Higher is more urgent; 0 where the client named none. */
  readonly priority: number
  /** When its first token is due; undefined: no deadline. */
  readonly deadline: number | undefined
}

/** A model as a model scheduler sees it. Times are milliseconds. */
export interface ModelView {
  readonly name: string
  readonly state: ModelState
  /** Whether new requests for it wait and it is unloaded once unused, by the last decision or an operator's call. */
  readonly isDraining: boolean
  /** Requests and other calls that keep it in memory. */
  readonly users: number
  /** When its last use began or ended. */
  readonly lastUsed: number
  /** Time that its latest loads took; undefined before the first. */
  readonly loadMs: number | undefined
  /** Time to restore what its slots hold, by computing or reading it, after an unload; 0: unknown. */
  readonly lostMs: number
  /** Whether it fits into memory beside the loaded models, as far as is known. */
  readonly fits: boolean
  /** The requests and calls that wait for it, the longest waiting first. */
  readonly waiting: readonly WaitingForModel[]
}

/** The next action. Names are those of the models in the view. */
export type ModelDecision =
  /** Load this model, which is unloaded, has waiting requests, and fits. */
  | { readonly load: string }
  /** Unload this model, which is loaded and has no users. */
  | { readonly unload: string }
  /** Let new requests for this loaded model wait, so that it becomes unused. Holds until the next decision. */
  | { readonly drain: string }
  /** Do nothing for at most this time. Infinity: until the next change. */
  | { readonly holdMs: number }

/**
 * Decides which models are in memory. It is called at every change (a request comes or leaves, a use ends, a model was
 * loaded or unloaded) while a request waits for a model that is not in memory, and no model is being loaded or
 * unloaded. Requests for a loaded model that is not draining never wait.
 *
 * A decision is a pure function of its arguments: no clock, no randomness, no state, so that the same code can be
 * simulated.
 */
export interface ModelScheduler {
  /**
   * The next action.
   *
   * @param models - the models in memory and those with waiting requests; the one with the longest wait first
   * @param now - the server's clock
   */
  decide(models: readonly ModelView[], now: number): ModelDecision
}
