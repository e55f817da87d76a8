import type { Learner } from '../services.js'
import type { BackendLimits } from '../model/backend.js'

/** The state of a request. */
export type RequestState =
  | 'queued'
  | 'prefilling'
  | 'decoding'
  | 'preempted'
  | 'done'
  | 'cancelled'
  | 'failed'
  | 'timed_out'

/**
 * What a policy sees of a request: a read-only view of the engine's own object, never a copy.
 * Times are milliseconds of the engine's clock.
 */
export interface SequenceView {
  /** Unique. */
  readonly id: string
  /** Such as `queued`, `decoding` or `preempted`. */
  readonly state: RequestState
  /** When it came. */
  readonly arrival: number
  /** Higher is more urgent; default 0. */
  readonly priority: number
  /** When the first token is due, or undefined. */
  readonly deadline: number | undefined
  /** Whose it is; default: `default`. */
  readonly tenant: string
  /** Its conversation, if its client names one. */
  readonly session: string | undefined
  /** Its program, by session or prompt; default: none. */
  readonly program?: ProgramView | undefined
  /** Tokens of its prompt. */
  readonly promptTokens: number
  /** Tokens sampled so far. */
  readonly generatedTokens: number
  /** Tokens that may be sampled. */
  readonly maxTokens: number
  /** Tokens whose keys and values are in its slot; 0 while waiting. */
  readonly computedTokens: number
  /**
   * Tokens before its next draw: 1 while decoding; waiting: without its cached prefix. That look-up is
   * cached until the slots change.
   */
  readonly remainingTokens: number
  /** Only sequences of one group share a step. */
  readonly stepGroup: string | undefined
  /** How often it lost its slot. */
  readonly preemptions: number
  /**
   * Guesses of its proposer, while it decodes; undefined: none. Made when it is first read, and cached until the next
   * token.
   */
  readonly draft?: DraftView | undefined
}

/** The fields of a request that are known before its prompt is tokenized. */
export type ArrivalView = Pick<
  SequenceView,
  'arrival' | 'priority' | 'deadline' | 'tenant' | 'session'
>

/** A draft: tokens that a proposer guesses, and how likely they are accepted. */
export interface DraftView {
  /** The number of draft tokens, at least 1. */
  readonly tokens: number
  /** The estimated probability, 0 to 1, that a draft token is accepted if all before it were. */
  readonly acceptance: number
}

/**
 * The waiting requests. First, in no order, those that have begun: preempted ones, and `queued` ones with generated
 * tokens that come from another engine. Then the others by arrival. A request that shares a prefix with a running
 * request that is still computing it is left out, for a bounded time, until the prefix can be copied: the policy gets
 * its `queued` event, but sees it only when it is worth admitting. So is one that has computed all before an image or sound
 * that is being encoded: it gets a `preempted` event, and its slot is free.
 */
export interface WaitingView extends Iterable<SequenceView> {
  readonly size: number
  /** Whether a request waits, in O(1); for policies that keep a queue of their own. */
  has(id: string): boolean
}

/** The state from which a policy plans. */
export interface SchedulerState {
  /** The only clock. */
  readonly now: number
  /** Requests without a slot. */
  readonly waiting: WaitingView
  /** Admitted requests, in the order of admission. */
  readonly running: readonly SequenceView[]
  /** Admitted requests of other step groups; absent: none. They wait during this group's step. */
  readonly delayed?: readonly SequenceView[]
  /** Slots to give; 0 while the shared pool is too full for one more. */
  readonly freeSlots: number
  /** `slots`, `contextSize`, `batchSize` and more. */
  readonly limits: BackendLimits
  /** Programs of the requests; absent: none. */
  readonly programs?: ProgramsView | undefined
}

/** The next step. */
export interface Plan {
  /**
   * Waiting requests that get a slot now, in this order; at most `freeSlots` plus the number of preempted ones. The
   * engine may let one wait on whose prefix another one of them will compute.
   */
  readonly admit: readonly string[]
  /** Running requests that lose their slot and wait again; their generated tokens are kept. */
  readonly preempt: readonly string[]
  /** Waiting requests that are refused, with a reason for the client. */
  readonly reject: readonly { readonly id: string; readonly reason: string }[]
  /**
   * The running or just admitted requests to compute, each with its number of tokens: at least 1, and at most
   * `limits.batchSize` in all. A number beyond a request's remaining tokens means all of them. Running requests that are
   * not named pause.
   *
   * `drafts` is the number of draft tokens that a decoding request verifies, at most as many as its `draft` has; they
   * count towards `limits.batchSize`. If no entry of a plan has `drafts`, the engine decides, as `chooseDrafts` does.
   */
  readonly run: readonly PlannedRun[]
  /** When to plan again at the latest, even if nothing happens before. */
  readonly wakeAt?: number
}

/** The share of one request in a step. */
export interface PlannedRun {
  readonly id: string
  readonly tokens: number
  readonly drafts?: number
}

/** An event that a policy observes. */
export type SchedulerEvent =
  /** `finished`: the request is done, cancelled, failed or timed out. */
  | {
      readonly type: 'queued' | 'admitted' | 'preempted' | 'finished'
      readonly request: SequenceView
      readonly now: number
    }
  /** A step was computed. Not sent for a step that failed at first: its duration is meaningless. */
  | {
      readonly type: 'step'
      readonly now: number
      /** From the start of the step to its sampled tokens. */
      readonly durationMs: number
      readonly prefillTokens: number
      /** Requests that decoded, with or without drafts. */
      readonly decodeSequences: number
      /** Tokens in the slots of the step's requests, before the step. */
      readonly contextTokens: number
      readonly parts: readonly ComputedPart[]
    }

/** The part of a step that belongs to one request. */
export interface ComputedPart {
  readonly request: SequenceView
  /** Tokens that were computed, drafts included. */
  readonly tokens: number
  /** Tokens in its slot before the step. */
  readonly context: number
  /** Whether it is a decode (the next token and its drafts) and not a chunk of a prompt. */
  readonly isDecode: boolean
  /** How many of the tokens are drafts that the step verified; default 0. */
  readonly drafts?: number
}

/** What a tenant was served apart from this engine's steps, since the last call. */
export interface TenantService {
  readonly tenant: string
  /** Computed prompt tokens; for images and sounds, as many as would take the same time. */
  readonly promptTokens: number
  readonly generatedTokens: number
}

/**
 * Decides what each step computes. Pure and deterministic: no clock, no I/O, no timers, seeded
 * randomness; the same calls give the same plans.
 */
export interface SchedulerPolicy extends Learner {
  /** The name by which clients choose it, such as `adaptive+fcfs`. */
  readonly name: string
  /** Its options with their values, for `GET /admin/scheduler` and reports. */
  readonly options?: Readonly<Record<string, unknown>>
  /** Plans the next step. Called before every step, and when something has changed. */
  plan(state: SchedulerState): Plan
  /**
   * The id of the running request that is preempted when the shared pool of KV cells is full; undefined: the one that
   * was admitted last. It waits again, and its generated tokens are kept.
   */
  victim?(state: SchedulerState): string | undefined
  /**
   * Orders the work before the queue, which is encoding images and sounds: the lowest rank is next, equal ranks in the
   * order of arrival. Default: the order of arrival.
   */
  arrivalRank?(request: ArrivalView): number
  /** Called for each event, in order. */
  observe?(event: SchedulerEvent): void
  /**
   * Called with what other engines of the model served each tenant, about once a second where there are several, and
   * after each encoded image or sound with its cost for the tenant.
   */
  onServedElsewhere?(services: readonly TenantService[]): void
}

/** A policy that can be set. */
export interface PolicyInfo {
  readonly name: string
  /** Its options with their defaults; left out where the policy cannot be made without options. */
  readonly options?: Readonly<Record<string, unknown>>
}

/** Why the fallback policy is active instead of the chosen one. */
export interface FallbackInfo {
  /** The policy that failed. */
  readonly from: string
  readonly reason: string
  /** Milliseconds of the engine's clock. */
  readonly since: number
}

/** A policy with its options. */
export interface PolicySetting {
  readonly policy: string
  readonly options: Readonly<Record<string, unknown>>
}

/** The active policy and the available ones. */
export interface SchedulerInfo extends PolicySetting {
  /** Every policy that can be set. */
  readonly available: readonly PolicyInfo[]
  /** Present while the fallback is active, until another policy is set. */
  readonly fallback?: FallbackInfo
}

/**
 * A program: the requests of one agent or conversation, each of which continues the one before. Times are milliseconds
 * of the engine's clock.
 */
export interface ProgramView {
  /** Its session, or the id of its first request where it was recognised by prompts. */
  readonly id: string
  readonly tenant: string
  /** The arrival of its first request. */
  readonly arrival: number
  /** The number of its requests so far. */
  readonly calls: number
  /** The number of its requests in flight. */
  readonly open: number
  /** Prompt and answer tokens computed for its ended requests. */
  readonly servedTokens: number
  /** When its latest request ended, which is where its present or last pause began; before that its arrival. */
  readonly pausedAt: number
  /** Tokens that its idle slot holds; 0: it has no slot. */
  readonly keptTokens: number
}

/** A program between two requests, with an idle slot that keeps its tokens. */
export interface PausedProgram {
  readonly program: ProgramView
  /** The cost in milliseconds of giving its slot away: computing what no other slot has, or saving and restoring all. */
  readonly lossMs: number
  /**
   * The highest expected number of returns per millisecond that the slot waits, from the learned pauses of this and
   * other programs and from how long it has paused already. It falls with time, as the program may have ended.
   */
  readonly returnRate: number
}

/** The programs as a policy sees them, computed on demand. */
export interface ProgramsView {
  /** The pausing programs that have a slot, in no order. */
  paused(now: number): readonly PausedProgram[]
}
