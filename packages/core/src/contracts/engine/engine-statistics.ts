import type { SlotId } from '../model/backend.js'
import type { RecorderStatistics } from './recording.js'
import type { PromptParting, CacheOrigin, WaitReason } from './request-report.js'
import type { Usage } from './generate-events.js'
import type { RequestState, SequenceView } from '../scheduling/scheduler-policy.js'

/** The status of a slot. */
export interface SlotStatistics {
  readonly slot: SlotId
  /** The request in it, or undefined when it is idle. */
  readonly request: string | undefined
  readonly state: RequestState | 'idle'
  /** Tokens in it; an idle slot keeps them for reuse. */
  readonly tokens: number
}

/** A histogram since the start. */
export interface Distribution {
  /** Upper bounds, rising; a value belongs to the first bound that it does not exceed. */
  readonly bounds: readonly number[]
  /** Number of values per bound; the last entry counts values above all bounds. */
  readonly counts: readonly number[]
  /** Sum of all values. */
  readonly sum: number
}

/** What the steps were made of. */
export interface StepStatistics {
  /** Tokens computed in prompts, also of requests that did not end well, and again if need be. */
  readonly prefillTokens: number
  /** Tokens computed to draw the next one, drafts included. */
  readonly decodeTokens: number
  /** Milliseconds from a step's start to its tokens. */
  readonly stepMs: Distribution
  /** Tokens computed in a step. */
  readonly stepTokens: Distribution
  /** Requests that took part in a step. */
  readonly stepSequences: Distribution
}

/** What came of speculation. */
export interface SpeculationStatistics {
  /** How often drafts of a request were verified. */
  readonly drafts: number
  /** Tokens of them. */
  readonly draftTokens: number
  /** Those of the tokens that were drawn. */
  readonly acceptedTokens: number
}

/** Prompts that parted from the call before: see `PromptParting`. */
export interface PartingStatistics {
  readonly prompts: number
  /** Tokens that were computed again for that. */
  readonly tokens: number
}

/** The images and sounds that are encoded beside the steps. */
export interface EncodeStatistics {
  /** Files that wait, with the one that is being encoded, and milliseconds that they are predicted to take. */
  readonly waiting: number
  readonly waitMs: number
  readonly encoded: number
  readonly failed: number
  /** Files whose encoding was kept. */
  readonly found: number
  /** Milliseconds of those that were encoded. */
  readonly encodeMs: number
  /** Milliseconds for which they waited for others before. */
  readonly queueMs: number
}

/** The KV cells that all slots share. */
export interface KvPoolStatistics {
  /** Tokens that fit into them. */
  readonly tokens: number
  /** Those of them that hold no token. */
  readonly free: number
}

/** One of several engines that serve a model together. */
export interface WorkerStatistics {
  readonly id: string
  /**
   * Whether it takes new requests; `restarting` while its engine is started again, `incompatible` where its version
   * does not go with that of who says so, which sends it nothing.
   */
  readonly state: 'up' | 'draining' | 'restarting' | 'incompatible'
  /** Requests that it holds in memory. */
  readonly slots: number
  /** Requests on it that have not ended. */
  readonly open: number
}

/** Several engines that serve a model together, and what their router did since the start. */
export interface WorkersStatistics {
  readonly list: readonly WorkerStatistics[]
  /** Requests that were placed on a worker, moves included. */
  readonly placed: number
  /** Requests that went on at another worker, which computes the same numbers … */
  readonly movedExactly: number
  /** … or may differ in rounding. */
  readonly movedInexactly: number
  /** Messages that no worker can have sent; what links that have ended still say is among them. */
  readonly refusedMessages: number
}

/** Counters since the start, and what is going on. Times are milliseconds. */
export interface EngineStatistics extends StepStatistics, Usage {
  readonly waiting: number
  readonly running: number
  /**
   * Milliseconds for which a request that comes now is predicted to wait for a slot; of several workers, the least of
   * those that take requests. Absent where no engine said it.
   */
  readonly waitMs?: number
  readonly slots: readonly SlotStatistics[]
  readonly requests: Readonly<Record<'done' | 'cancelled' | 'failed' | 'timed_out', number>>
  readonly preemptions: number
  /** Policies that failed and were replaced by the fallback. */
  readonly policyFaults: number
  readonly steps: number
  /** Steps of batches that were interrupted for a client's request; not among `steps`. */
  readonly interruptedSteps: number
  /** By what made a call the one before. Absent where an engine does not say. */
  readonly partings?: Readonly<Record<PromptParting['by'], PartingStatistics>>
  /** In the backend's forward passes. */
  readonly decodeMs: number
  /** The prompts' part of that; where a pass computed a prompt and answers at once, an estimate. */
  readonly prefillMs: number
  /** In the backend's sampling. */
  readonly sampleMs: number
  /** In steps and between a step and the next one that follows at once: all of the loop's work. */
  readonly busyMs: number
  /** Absent where nothing was ever drafted. */
  readonly speculation?: SpeculationStatistics
  /** Absent where the model takes no images and sounds. */
  readonly encodes?: EncodeStatistics
  /** Absent where each slot has cells of its own. */
  readonly kvPool?: KvPoolStatistics
  /** The tiers behind the slots; absent where there are none. */
  readonly cache?: CacheStatistics
  /** What the flight recorder holds, where there is one. */
  readonly recorder?: RecorderStatistics
  /** The workers behind it; absent for a single engine. */
  readonly workers?: WorkersStatistics
}

/** One tier of what slots held, since the start. */
export interface TierStatistics {
  /** States in it. */
  readonly states: number
  readonly bytes: number
  /** Most bytes. */
  readonly limitBytes: number
  /** Requests that began with a state of it. */
  readonly hits: number
  /** Tokens that they had of it. */
  readonly hitTokens: number
  /** Requests of which nothing was found, in no slot either. */
  readonly misses: number
  /** States that were put into it. */
  readonly saved: number
  /** Those that were not, as requests beside it would have waited too long. */
  readonly skipped: number
  /** States that could not be saved or restored. */
  readonly failed: number
  /** States that were dropped to make room. */
  readonly evictions: number
  /** Milliseconds that saving took, and restoring. */
  readonly saveMs: number
  readonly loadMs: number
}

/** The tiers behind the slots. */
export interface CacheStatistics {
  /** States in RAM. */
  readonly ram: TierStatistics
  /** States in files, where there are any; what they have to do with requests is counted here alone. */
  readonly disk?: TierStatistics
  /** Milliseconds of the longest time that requests which decode waited for a slot to be filled. */
  readonly longestPauseMs: number
}

/** A saved state. */
export interface CachedState {
  readonly tier: 'ram' | 'disk'
  readonly tokens: number
  readonly bytes: number
  /** Whether it is a checkpoint, and not all that a slot held. */
  readonly checkpoint: boolean
  /** Whether it is dropped for no other. */
  readonly pinned: boolean
}

/**
 * What a request did for a while: it waited for a slot, its prompt was computed, its answer was
 * generated, or it had a slot and steps went by without it (`pause`). Times are the engine's clock.
 */
export interface ActivitySpan {
  readonly id: string
  /** Absent of a wait. */
  readonly slot?: number
  readonly kind: 'wait' | 'prefill' | 'decode' | 'pause'
  readonly atMs: number
  readonly untilMs: number
  /** Tokens that were computed; 0 of a wait and a pause. */
  readonly tokens: number
}

/** Sums over the steps of a frame. */
export interface ActivitySteps {
  readonly count: number
  /** Milliseconds from the start of each step to its tokens. */
  readonly ms: number
  readonly prefillTokens: number
  readonly decodeTokens: number
  /** Sums over the steps of the requests that took part. */
  readonly prefillSequences: number
  readonly decodeSequences: number
}

/** A request that ended, without its content. */
export interface EndedActivity extends Usage, Pick<SequenceView, 'id' | 'tenant' | 'state'> {
  /** Where its slot had the cached tokens from; absent without tiers behind the slots. */
  readonly cache?: CacheOrigin
  /** Milliseconds that it waited for its first slot. */
  readonly queueMs: number
}

/** What an engine did between two looks at it. */
export interface ActivityFrame {
  /** Counts up from 1. */
  readonly number: number
  readonly atMs: number
  readonly untilMs: number
  readonly spans: readonly ActivitySpan[]
  readonly steps: ActivitySteps
  /** Milliseconds from arrival to the first token, of the requests that got theirs. */
  readonly firstTokensMs: readonly number[]
  /**
   * Pauses between two tokens of a stream: how many were at most 1.15 ** exponent milliseconds long,
   * and longer than with the exponent before.
   */
  readonly itl: readonly (readonly [exponent: number, count: number])[]
  /** Computed tokens by tenant. */
  readonly tenants: Readonly<Record<string, number>>
  readonly ended: readonly EndedActivity[]
}

/** A request that waits, without its content. */
export interface WaitingActivity {
  readonly id: string
  readonly tenant: string
  readonly priority: number
  readonly state: RequestState | 'encoding'
  readonly arrival: number
  /** 0 while it is `encoding`. */
  readonly promptTokens: number
  /** The time to first token that was predicted when it arrived, in milliseconds. */
  readonly predictedMs?: number
  /** Milliseconds until it gets a slot, as predicted now. */
  readonly slotInMs: number
  /** Why it has waited so far, in milliseconds. */
  readonly reasons: Readonly<Partial<Record<WaitReason, number>>>
}

/** What goes on in an engine: see `activity` of an engine's client. */
export interface EngineActivity extends Pick<EngineStatistics, 'slots' | 'kvPool' | 'cache'> {
  /** The engine's clock in milliseconds. */
  readonly now: number
  /** What to ask with next: the number of the last frame. */
  readonly cursor: number
  /** Frames that nobody fetched in time. */
  readonly lost: number
  readonly policy: string
  /** Tokens that a slot can hold. */
  readonly slotTokens: number
  /** All that wait, or are `encoding`. */
  readonly waiting: number
  /** The first 32 of them, in the queue's order, those that are `encoding` last. */
  readonly queue: readonly WaitingActivity[]
  readonly frames: readonly ActivityFrame[]
}
