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

/** What a {@link Batching} decides of a plan. */
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
   * The running request that gives its slot back when the KV cells that all share are used up. Default:
   * the one that was admitted last.
   */
  victim?(state: SchedulerState): SequenceView | undefined
  /**
   * How many of the free slots are kept for requests that have not come yet, as their programs pause. Asked
   * where requests wait and others run.
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
  /** Whose it is; empty where requests have no tenants. */
  readonly tenant: string
  /** The conversation that it belongs to, if its client names one. */
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
   * Where each of its images and sounds ends, in tokens of its prompt, rising: a worker that holds the prompt up to
   * there has probably kept what it made of it, and the others are encoded before the prompt is computed.
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
  /** Time since the worker said this. */
  readonly ageMs: number
  /** Fronts that place requests on the workers, this one included. */
  readonly fronts: number
  /** Requests that the other fronts have probably placed on the workers and no report shows yet. */
  readonly unseen: number
  /** Sequences that it holds in memory. */
  readonly slots: number
  /** Requests on it that have not ended. */
  readonly open: number
  /** Prompt tokens of those requests, whether they are computed or not. */
  readonly openTokens: number
  /** Prompt tokens of those requests that it has yet to compute. */
  readonly backlogTokens: number
  /** Images and sounds of those requests that it has yet to encode, one at a time and beside its steps. */
  readonly backlogFiles: number
  /** Time that a prompt token takes it, among all else that it does. */
  readonly tokenMs: number
  /** Time that a token of an answer takes it. */
  readonly stepMs: number
  /** Predicted time until it begins to compute this request's prompt: its files are encoded before. */
  readonly waitMs: number
  /** Leading tokens of this request's prompt that it probably holds. */
  readonly cachedTokens: number
  /** Predicted time to this request's first token: the wait and the prompt that it does not hold. */
  readonly firstTokenMs: number
  /** When a request last came to it, by the front's clock and as far as it knows; -Infinity: never. */
  readonly placedAt: number
}

/** Where a request goes. */
export type Placement =
  /** To this worker, by its id. */
  | { readonly worker: string }
  /** Nowhere yet: it is asked about again after this many milliseconds, 5 at least. */
  | { readonly holdMs: number }
  /** Nowhere: the client is told why, and may come again after `retryMs`. */
  | { readonly refuse: string; readonly retryMs?: number }

/**
 * Chooses the worker of each request. A front has one router, and a cluster has one in each of its
 * fronts: they see the same workers, each a little late, and not each other.
 *
 * Placing is synchronous and takes microseconds. It must follow from its arguments and the calls before, with no
 * clock, chance or other input of its own, so that the same code can be simulated: two routers that are
 * asked the same give the same answers.
 */
export interface RouterPolicy {
  /**
   * Places a request.
   *
   * @param workers those that may take it, in the order of their ids; at least one
   * @param now the front's clock in milliseconds
   */
  place(request: RoutedRequest, workers: readonly WorkerView[], now: number): Placement
}

/** A request, or a call, that waits for its model. Times are milliseconds of the server's clock. */
export interface WaitingForModel {
  /** When it began to wait. */
  readonly since: number
  /** Higher is more urgent; 0 where nothing was said. */
  readonly priority: number
  /** When its first token is due; undefined: whenever. */
  readonly deadline: number | undefined
}

/** A model as a scheduler of models sees it. Times are milliseconds. */
export interface ModelView {
  readonly name: string
  readonly state: ModelState
  /** Whether it leaves as soon as it is unused, as was decided last or asked for: new requests for it wait. */
  readonly isDraining: boolean
  /** Pieces of work that hold it in memory. */
  readonly users: number
  /** When its last use began or ended. */
  readonly lastUsed: number
  /** What its loads take, lately; undefined before the first. */
  readonly loadMs: number | undefined
  /** What it would take to have what its slots held when it was last unused: to compute or to read it; 0: not known. */
  readonly lostMs: number
  /** Whether there is room for it beside those in memory, as far as is known. */
  readonly fits: boolean
  /** Who waits for it, the longest waiting first. */
  readonly waiting: readonly WaitingForModel[]
}

/** What is to be done. Names are of models that the scheduler was shown. */
export type ModelDecision =
  /** Load one that is unloaded, waited for, and fits. */
  | { readonly load: string }
  /** Unload a loaded one without users. */
  | { readonly unload: string }
  /** Keep new requests for a loaded one in use waiting. Holds until the next decision. */
  | { readonly drain: string }
  /** Nothing; it is asked again after this time at the latest. Infinity: at the next change. */
  | { readonly holdMs: number }

/**
 * Decides which models are in memory. It is asked at every change (a request comes or leaves, a use ends, a
 * model is loaded or gone) while a request waits for a model that is not in memory, and none is being loaded or
 * unloaded. Those who wait for a loaded model that is not drained are served at once.
 *
 * A decision is a pure function of its arguments: no clock, no chance, no state, so that the same code can be
 * simulated.
 */
export interface ModelScheduler {
  /**
   * What is to be done now.
   *
   * @param models - those in memory and those that are waited for; the longest waited for first
   * @param now - the server's clock
   */
  decide(models: readonly ModelView[], now: number): ModelDecision
}
