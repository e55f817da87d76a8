import type { Learner } from '../services.js'
import type { BackendLimits } from '../model/backend.js'
import type { Usage } from '../engine/generate-events.js'

/** Where a request is in its life. */
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
  readonly id: string
  readonly state: RequestState
  readonly arrival: number
  /** Higher is more urgent; default 0. */
  readonly priority: number
  /** When the first token is due, or undefined. */
  readonly deadline: number | undefined
  readonly tenant: string
  readonly session: string | undefined
  /** The program that it belongs to, by its session or its prompt; default: none. */
  readonly program?: ProgramView | undefined
  readonly promptTokens: number
  /** Tokens drawn so far. */
  readonly generatedTokens: number
  readonly maxTokens: number
  /** Tokens of prompt and output so far whose keys and values are in the slot; 0 while waiting. */
  readonly computedTokens: number
  /**
   * Tokens still to compute before the next one can be drawn: 1 while decoding, more in prefill. For
   * a waiting request what a slot already holds is taken off. The look-up is remembered until slots
   * change.
   */
  readonly remainingTokens: number
  /** Only sequences of one group share a step. */
  readonly stepGroup: string | undefined
  readonly preemptions: number
  /**
   * What its proposer guesses that comes next, while it decodes; undefined: nothing. Looked up when it
   * is read, and remembered until the next token.
   */
  readonly draft?: DraftView | undefined
}

/** What is known of a request before its prompt is. */
export type ArrivalView = Pick<
  SequenceView,
  'arrival' | 'priority' | 'deadline' | 'tenant' | 'session'
>

/** Tokens that a proposer guesses, and how likely they are right. */
export interface DraftView {
  /** How many there are, 1 or more. */
  readonly tokens: number
  /** The estimated probability of each that it is drawn if those before it were, 0 to 1. */
  readonly acceptance: number
}

/**
 * The waiting requests: first those that have begun, in no order: they were preempted, or are `queued`
 * with generated tokens, as another engine lost them. Then the others by arrival. A request whose prompt begins with what
 * a running one is computing is not among them until that is there to be copied, for a bounded time:
 * a policy hears that it is `queued`, but sees it only when it is worth admitting.
 */
export interface WaitingView extends Iterable<SequenceView> {
  readonly size: number
  /** Whether a request is among them, in O(1): for policies with their own view of the queue. */
  has(id: string): boolean
}

/** What a policy plans from. */
export interface SchedulerState {
  /** The engine's clock, in milliseconds; the only time a policy knows. */
  readonly now: number
  readonly waiting: WaitingView
  /** Admitted requests, by admission. */
  readonly running: readonly SequenceView[]
  /**
   * What a batching sees: admitted requests of other step groups, which wait while a step of these is
   * computed. Absent: none.
   */
  readonly delayed?: readonly SequenceView[]
  /** Slots that can be given out; none while the KV cells that all share do not suffice for one more. */
  readonly freeSlots: number
  readonly limits: BackendLimits
  /** The programs that requests belong to; absent: there is none. */
  readonly programs?: ProgramsView | undefined
}

/** What the next step is. */
export interface Plan {
  /**
   * Waiting requests that get a slot now, in this order. At most `freeSlots` + preempted ones. One
   * that begins with what another one of them is to compute is not admitted yet.
   */
  readonly admit: readonly string[]
  /** Running requests that lose their slot and wait again, their tokens kept. */
  readonly preempt: readonly string[]
  /** Waiting requests that are refused, with a reason for the client. */
  readonly reject: readonly { readonly id: string; readonly reason: string }[]
  /**
   * The running or just admitted requests to compute, with their number of tokens, at least 1 each and
   * `limits.batchSize` in all; more than a request has left counts as what it has. A running request
   * that is not named is paused.
   *
   * `drafts` is how many guessed tokens a decoding request verifies with its next one, at most as many
   * as its `draft` has; they count towards `limits.batchSize`. A plan in which no entry has it leaves
   * that to the engine, which decides as `chooseDrafts` does.
   */
  readonly run: readonly PlannedRun[]
  /** Asks to be called again at this time, though nothing may happen before. */
  readonly wakeAt?: number
}

/** The share of one request in a step. */
export interface PlannedRun {
  readonly id: string
  readonly tokens: number
  readonly drafts?: number
}

/** What a policy can learn from. */
export type SchedulerEvent =
  /** `finished`: it left, done, cancelled, failed or timed out. */
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
      /** Sequences that computed their next token, with drafts or alone. */
      readonly decodeSequences: number
      /** Tokens in the slots of all sequences of the step before it. */
      readonly contextTokens: number
      readonly parts: readonly ComputedPart[]
    }

/** What a step computed of a request. */
export interface ComputedPart {
  readonly request: SequenceView
  /** Tokens that were computed, drafts included. */
  readonly tokens: number
  /** Tokens in its slot before the step. */
  readonly context: number
  /** Whether this is the next token of a decode, with its drafts, and not (a chunk of) a prompt. */
  readonly isDecode: boolean
  /** How many of the tokens are drafts that the step verified; default 0. */
  readonly drafts?: number
}

/** What a tenant was served beside the steps of this engine since the last time. */
export interface TenantService {
  readonly tenant: string
  /** Of prompts, without what slots held; for images and sounds, as many as take as long as they did. */
  readonly promptTokens: number
  readonly generatedTokens: number
}

/**
 * Decides what each step computes. Pure and deterministic: no clock, no I/O, no timers, seeded
 * randomness; the same calls give the same plans.
 */
export interface SchedulerPolicy extends Learner {
  /** As clients name it, such as `adaptive+fcfs`. */
  readonly name: string
  /** Its options with their values, for `GET /admin/scheduler` and reports. */
  readonly options?: Readonly<Record<string, unknown>>
  /** Says what the next step is. Called before every step, and when there is something new. */
  plan(state: SchedulerState): Plan
  /**
   * Says which of the running requests gives its slot back when the KV cells that all share are used up:
   * its id, or undefined for the one that was admitted last. It waits again, its tokens kept.
   */
  victim?(state: SchedulerState): string | undefined
  /**
   * Orders what is done for requests before they wait for a slot, which is to encode their images and sounds: the
   * least is next, equals as they came. Default: as they came.
   */
  arrivalRank?(request: ArrivalView): number
  /** Hears of what happened, in order. */
  observe?(event: SchedulerEvent): void
  /**
   * Hears what other engines of the model did for tenants, about once a second where there are several, and after each
   * image and sound what that cost its tenant.
   */
  onServedElsewhere?(services: readonly TenantService[]): void
}

/** A policy that can be set. */
export interface PolicyInfo {
  readonly name: string
  /** Its options with their defaults; left out where the policy cannot be made without options. */
  readonly options?: Readonly<Record<string, unknown>>
}

/** Why another policy than the one that was chosen is in force. */
export interface FallbackInfo {
  /** The policy that failed. */
  readonly from: string
  readonly reason: string
  /** Milliseconds of the engine's clock. */
  readonly since: number
}

/** A policy as it is set. */
export interface PolicySetting {
  readonly policy: string
  readonly options: Readonly<Record<string, unknown>>
}

/** The policy in force. */
export interface SchedulerInfo extends PolicySetting {
  /** Every policy that can be set. */
  readonly available: readonly PolicyInfo[]
  /** Set while the fallback is in force, until another policy is set. */
  readonly fallback?: FallbackInfo
}

/**
 * A program: requests of one agent or conversation, each of which goes on with what the ones before have
 * said. Times are milliseconds of the engine's clock.
 */
export interface ProgramView {
  /** The session that names it, or the id of its first request where it was learnt from prompts. */
  readonly id: string
  readonly tenant: string
  /** When its first request came. */
  readonly arrival: number
  /** Its requests so far, and those of them that have not ended. */
  readonly calls: number
  readonly open: number
  /** Tokens that were computed for its requests that have ended, of prompts and answers. */
  readonly servedTokens: number
  /** Since when none of its requests is open, or until when none was. */
  readonly pausedAt: number
  /** Tokens that its idle slot holds; 0: it has none. */
  readonly keptTokens: number
}

/** A program between two of its requests, whose tokens an idle slot keeps. */
export interface PausedProgram {
  readonly program: ProgramView
  /** Milliseconds that having its tokens again takes: to compute those that no other slot has, or to save and restore all. */
  readonly lossMs: number
  /**
   * Returns for each millisecond that the slot waits, at best: by how long this program and others pause, and
   * how long it has. It falls while nothing comes, as the program may be gone.
   */
  readonly returnRate: number
}

/** What a policy sees of programs, worked out when it is asked for. */
export interface ProgramsView {
  /** Those that pause and have a slot, in no order. */
  paused(now: number): readonly PausedProgram[]
}

/** A program as `GET /admin/programs` shows it. */
export interface ProgramReport extends Omit<ProgramView, 'arrival' | 'pausedAt'>, Usage {
  /** How often it paused, and for how long in all, in milliseconds. */
  readonly pauses: number
  readonly pausedMs: number
  /** Milliseconds that it has paused now; absent while it has an open request. */
  readonly pausesSinceMs?: number
  /** The tool that it waits for then; absent: none that is known. */
  readonly tool?: string
}
