import type { CacheStatistics, KvPoolStatistics, SlotStatistics } from './engine-statistics.js'
import type { CacheOrigin, WaitReason } from './request-report.js'
import type { Usage } from './generate-events.js'
import type { RequestState } from '../scheduling/scheduler-policy.js'

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
export interface EndedActivity extends Usage {
  readonly id: string
  readonly tenant: string
  readonly state: RequestState
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
export interface EngineActivity {
  /** The engine's clock in milliseconds. */
  readonly now: number
  /** What to ask with next: the number of the last frame. */
  readonly cursor: number
  /** Frames that nobody fetched in time. */
  readonly lost: number
  readonly policy: string
  readonly slots: readonly SlotStatistics[]
  /** Tokens that a slot can hold. */
  readonly slotTokens: number
  /** The KV cells that all slots share; absent where each has its own. */
  readonly kvPool?: KvPoolStatistics
  /** The tiers behind the slots; absent where there are none. */
  readonly cache?: CacheStatistics
  /** All that wait, or are `encoding`. */
  readonly waiting: number
  /** The first 32 of them, in the queue's order, those that are `encoding` last. */
  readonly queue: readonly WaitingActivity[]
  readonly frames: readonly ActivityFrame[]
}
