import type { SlotId } from '../model/backend.js'
import type { RecorderStatistics } from './recording.js'
import type { PromptParting, CacheOrigin, WaitReason } from './request-report.js'
import type { Usage } from './generate-events.js'
import type { ProgramView, RequestState, SequenceView } from '../scheduling/scheduler-policy.js'

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

/** What the engine's steps computed. */
export interface StepStatistics {
  /** Prompt tokens computed, including those of requests that failed and those computed again after a preemption. */
  readonly prefillTokens: number
  /** Tokens computed while decoding, draft tokens included. */
  readonly decodeTokens: number
  /** Milliseconds from a step's start to its tokens. */
  readonly stepMs: Distribution
  /** Tokens per step. */
  readonly stepTokens: Distribution
  /** Requests per step. */
  readonly stepSequences: Distribution
}

/** Results of speculative decoding. */
export interface SpeculationStatistics {
  /** Drafts that were verified. */
  readonly drafts: number
  /** Tokens of these drafts. */
  readonly draftTokens: number
  /** Draft tokens that were accepted, as the model drew them too. */
  readonly acceptedTokens: number
}

/** Prompts that differ from the beginning of the call before: see `PromptParting`. */
export interface PartingStatistics {
  readonly prompts: number
  /** Tokens that were computed again because of it. */
  readonly tokens: number
}

/** A program as `GET /admin/programs` shows it. */
export interface ProgramReport extends Omit<ProgramView, 'arrival' | 'pausedAt'>, Usage {
  /** The number of its pauses. */
  readonly pauses: number
  /** The sum of its pauses in milliseconds. */
  readonly pausedMs: number
  /** Its prompts that parted from the call before. */
  readonly partings: PartingStatistics
  /** The present pause in milliseconds; absent with requests in flight. */
  readonly pausesSinceMs?: number
  /** The tool that it waits for in this pause; absent: unknown. */
  readonly tool?: string
}

/** Images and sounds, which are encoded beside the steps. */
export interface EncodeStatistics {
  /** Files in the queue, including the one that is being encoded. */
  readonly waiting: number
  /** Milliseconds that encoding these files is predicted to take. */
  readonly waitMs: number
  readonly encoded: number
  readonly failed: number
  /** Files whose encoding was found in the cache. */
  readonly found: number
  /** Milliseconds spent encoding. */
  readonly encodeMs: number
  /** Milliseconds that the encoded files had waited in the queue. */
  readonly queueMs: number
}

/** The pool of KV cells that all slots share. */
export interface KvPoolStatistics {
  /** Tokens that the pool can hold. */
  readonly tokens: number
  /** Cells without a token. */
  readonly free: number
}

/** One of several engines that serve a model together. */
export interface WorkerStatistics {
  readonly id: string
  /**
   * Whether it takes new requests. `restarting`: its engine is being started again. `incompatible`: its version does
   * not match the front's, which sends it no requests.
   */
  readonly state: 'up' | 'draining' | 'restarting' | 'incompatible'
  /** Requests that it can compute at once. */
  readonly slots: number
  /** Requests in flight on it. */
  readonly open: number
}

/** Several engines that serve a model together, and counts of their router since the start. */
export interface WorkersStatistics {
  readonly list: readonly WorkerStatistics[]
  /** Requests that were placed on a worker, moves included. */
  readonly placed: number
  /** Requests that continued on another worker with the same fingerprint. */
  readonly movedExactly: number
  /** Requests that continued on another worker whose numbers may differ in rounding. */
  readonly movedInexactly: number
  /** Messages that were refused as invalid, including late messages of links that have ended. */
  readonly refusedMessages: number
}

/** Counters since the start, and the current load. Times are milliseconds. */
export interface EngineStatistics extends StepStatistics, Usage {
  readonly waiting: number
  readonly running: number
  /**
   * Milliseconds that a request arriving now is predicted to wait for a slot; with several workers, the shortest wait
   * of those that take requests. Absent where no engine has reported it.
   */
  readonly waitMs?: number
  readonly slots: readonly SlotStatistics[]
  readonly requests: Readonly<Record<'done' | 'cancelled' | 'failed' | 'timed_out', number>>
  readonly preemptions: number
  /** How often a policy failed and was replaced by the fallback. */
  readonly policyFaults: number
  readonly steps: number
  /** Steps of the batch lane that were interrupted for a client's request; not counted in `steps`. */
  readonly interruptedSteps: number
  /** Grouped by how the call before was recognised. Absent where an engine does not report it. */
  readonly partings?: Readonly<Record<PromptParting['by'], PartingStatistics>>
  /** Time in the backend's forward passes. */
  readonly decodeMs: number
  /** The part of `decodeMs` spent on prompts; estimated for passes that computed prompts and answers together. */
  readonly prefillMs: number
  /** Time in the backend's sampling. */
  readonly sampleMs: number
  /** Time in which the loop worked: in steps, and between steps that follow each other at once. */
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

/** One tier of saved slot states; counts since the start. */
export interface TierStatistics {
  /** States that it holds now. */
  readonly states: number
  readonly bytes: number
  /** The limit of `bytes`. */
  readonly limitBytes: number
  /** Requests that began with a state from this tier. */
  readonly hits: number
  /** Prompt tokens that these requests did not have to compute. */
  readonly hitTokens: number
  /** Requests for which nothing was found, neither here nor in a slot. */
  readonly misses: number
  /** States that were written into this tier. */
  readonly saved: number
  /** States that were not saved, as decoding requests would have waited too long. */
  readonly skipped: number
  /** States that could not be saved or restored. */
  readonly failed: number
  /** States that were evicted to make room. */
  readonly evictions: number
  /** Milliseconds spent saving. */
  readonly saveMs: number
  /** Milliseconds spent restoring. */
  readonly loadMs: number
}

/** The tiers behind the slots. */
export interface CacheStatistics {
  /** States in RAM. */
  readonly ram: TierStatistics
  /** States in files; absent without files. Hits from files are counted here, not in `ram`. */
  readonly disk?: TierStatistics
  /** The longest time in milliseconds that decoding requests waited while a slot was prepared for another request. */
  readonly longestPauseMs: number
}

/** A saved state. */
export interface CachedState {
  readonly tier: 'ram' | 'disk'
  readonly tokens: number
  readonly bytes: number
  /** Whether it is a checkpoint: the state of a prompt's beginning, not of all that the slot held. */
  readonly checkpoint: boolean
  /** Whether it is never evicted for another state. */
  readonly pinned: boolean
}

/**
 * One phase of a request: waiting for a slot, prefill, decode, or `pause`, in which it has a slot but takes part in no
 * step. Times are the engine's clock.
 */
export interface ActivitySpan {
  readonly id: string
  /** Absent while it waits. */
  readonly slot?: number
  readonly kind: 'wait' | 'prefill' | 'decode' | 'pause'
  readonly atMs: number
  readonly untilMs: number
  /** Tokens computed; 0 for `wait` and `pause`. */
  readonly tokens: number
}

/** Sums over all steps of a frame. */
export interface ActivitySteps {
  readonly count: number
  /** Milliseconds from the start of each step to its tokens. */
  readonly ms: number
  readonly prefillTokens: number
  readonly decodeTokens: number
  /** Requests in prefill, summed over the steps. */
  readonly prefillSequences: number
  /** Requests that decode, summed over the steps. */
  readonly decodeSequences: number
}

/** A request that has ended, without its content. */
export interface EndedActivity extends Usage, Pick<SequenceView, 'id' | 'tenant' | 'state'> {
  /** Where its cached tokens came from; absent without tiers behind the slots. */
  readonly cache?: CacheOrigin
  /** Milliseconds that it waited for its first slot. */
  readonly queueMs: number
}

/** What an engine did in a short span of time. */
export interface ActivityFrame {
  /** Consecutive numbers from 1. */
  readonly number: number
  readonly atMs: number
  readonly untilMs: number
  readonly spans: readonly ActivitySpan[]
  readonly steps: ActivitySteps
  /** TTFT in milliseconds of each request that got its first token in this frame. */
  readonly firstTokensMs: readonly number[]
  /**
   * Histogram of ITL, the time between two tokens of a stream: `count` pauses were at most 1.15 ** exponent
   * milliseconds long, and longer than 1.15 ** (exponent - 1).
   */
  readonly itl: readonly (readonly [exponent: number, count: number])[]
  /** Computed tokens by tenant. */
  readonly tenants: Readonly<Record<string, number>>
  readonly ended: readonly EndedActivity[]
}

/** A waiting request, without its content. */
export interface WaitingActivity extends Pick<SequenceView, 'id' | 'tenant' | 'priority'> {
  readonly state: RequestState | 'encoding'
  readonly arrival: number
  /** 0 while it is `encoding`. */
  readonly promptTokens: number
  /** TTFT in milliseconds, as predicted at its arrival. */
  readonly predictedMs?: number
  /** Milliseconds until it gets a slot, as predicted now. */
  readonly slotInMs: number
  /** Why it has waited so far, in milliseconds. */
  readonly reasons: Readonly<Partial<Record<WaitReason, number>>>
}

/** The live view of an engine: the answer of `EngineClient.activity`. */
export interface EngineActivity extends Pick<EngineStatistics, 'slots' | 'kvPool' | 'cache'> {
  /** The engine's clock in milliseconds. */
  readonly now: number
  /** The number of the last frame, to be passed to the next call. */
  readonly cursor: number
  /** Frames that were dropped before they were fetched. */
  readonly lost: number
  readonly policy: string
  /** Tokens that a slot can hold. */
  readonly slotTokens: number
  /** Number of requests that wait or are `encoding`. */
  readonly waiting: number
  /** The first 32 waiting requests in the queue's order; `encoding` ones come last. */
  readonly queue: readonly WaitingActivity[]
  readonly frames: readonly ActivityFrame[]
}
