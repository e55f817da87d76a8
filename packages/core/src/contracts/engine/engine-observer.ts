import type { CllmError } from '../../errors/cllm-error.js'
import type { AddressedEvent, Timings, Usage } from './generate-events.js'
import type {
  ComputedPart,
  Plan,
  RequestState,
  SchedulerState,
  SequenceView,
} from '../scheduling/scheduler-policy.js'

/** A computed step, with all sums that observers need. Times are milliseconds. */
export interface StepRecord {
  /** By the engine's clock. */
  readonly startedAt: number
  readonly endedAt: number
  /** From the start of the step to its sampled tokens. */
  readonly durationMs: number
  /** In the backend's forward pass. */
  readonly decodeMs: number
  /** In the backend's sampling. */
  readonly sampleMs: number
  /** Prompt tokens that were computed. */
  readonly prefillTokens: number
  /** Requests that computed a part of their prompt. */
  readonly prefillSequences: number
  /** Requests that decode, with or without drafts. */
  readonly decodeSequences: number
  /** Decoding requests that verified drafts. */
  readonly draftSequences: number
  /** Draft tokens that were verified. */
  readonly draftTokens: number
  /** Draft tokens that were accepted. */
  readonly acceptedTokens: number
  /** Tokens in the slots of the decoding requests before the step. */
  readonly decodeContextTokens: number
  /** Tokens in the slots of all requests of the step before it. */
  readonly contextTokens: number
  readonly parts: readonly ComputedPart[]
  /** Whether it succeeded at the first try; otherwise its duration says nothing about costs. */
  readonly isWhole: boolean
}

/** How a request ended. */
export interface RequestEnd {
  readonly state: Extract<RequestState, 'done' | 'cancelled' | 'failed' | 'timed_out'>
  /** The error sent to its client; undefined when it is done. */
  readonly error: CllmError | undefined
  readonly usage: Usage
  readonly timings: Timings
}

/**
 * Observes an engine: one call for each change of a request and one record for each
 * step. Add one with `Engine.observe`, or with `provide(ENGINE_OBSERVER, …)` in a plug-in. The
 * engine's own parts listen the same way: first the policy, then the reports, then the others in the
 * order in which they were added.
 *
 * Calls are made between two steps and are part of the engine's loop, so they should return within
 * microseconds. An observer that throws is logged once and goes on being called; the engine and
 * the other observers do not notice. `now` is the engine's clock in milliseconds.
 */
export interface EngineObserver {
  /** A request is valid and joined the queue. */
  onQueued?(request: SequenceView, now: number): void
  /**
   * A part of a long text was tokenized, which is done one part per turn of the event loop. The text is a prompt that
   * has not joined the queue yet, or any other text.
   */
  onTokenized?(now: number): void
  /** A request was refused before it joined the queue. */
  onRefused?(id: string, error: CllmError, now: number): void
  /**
   * A waiting request got a slot; next its sampler is made, which compiles its constraint. `onAdmitted` follows, or
   * `onFinished` when that fails.
   */
  onPreparing?(request: SequenceView, now: number): void
  /** A waiting request got a slot. */
  onAdmitted?(request: SequenceView, now: number): void
  /** A running request lost its slot and waits again. */
  onPreempted?(request: SequenceView, now: number): void
  /** A waiting request is held back until the prefix that it shares with another one is computed, or a file encoded. */
  onHeld?(request: SequenceView, now: number): void
  /** The request is no longer held back. */
  onReleased?(request: SequenceView, now: number): void
  /** A request left the queue or its slot for good; its last events may not be published yet. */
  onFinished?(request: SequenceView, now: number): void
  /** The last event of a request was published. Called once for each request that was queued. */
  onEnded?(request: SequenceView, end: RequestEnd, now: number): void
  /** The policy made a valid plan from this state; it is carried out next. */
  onPlan?(plan: Plan, state: SchedulerState): void
  /** A step is about to be computed. */
  onStepStart?(parts: readonly ComputedPart[], now: number): void
  /** A step was computed; its tokens are not appended yet, so requests are as they were before it. */
  onStep?(step: StepRecord): void
  /** Events for clients are published: the events of all requests together, once a step. */
  onEvents?(events: readonly AddressedEvent[]): void
  /** One turn of the engine's loop has ended. `step` is undefined where it computed none or was interrupted. */
  onTurn?(durationMs: number, step: StepRecord | undefined): void
}
