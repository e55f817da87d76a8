import { injectable } from 'tsyringe'
import type { Usage } from '../../contracts/engine/engine-client.js'
import type {
  EngineObserver,
  RequestEnd,
  StepRecord,
} from '../../contracts/engine/engine-observer.js'
import type { EngineStatistics } from '../../contracts/engine/engine-statistics.js'
import type { SequenceView } from '../../contracts/scheduling/scheduler-policy.js'
import type { CllmError } from '../../errors/cllm-error.js'
import { defined } from '../../defined.js'
import { PrefillTime } from './prefill-time.js'
import { StepCounters } from './step-counters.js'

/** How a request can end. */
export type EndState = 'done' | 'cancelled' | 'failed' | 'timed_out'

/** The state of a request that ended with this error, or with none. */
export function endState(error: Pick<CllmError, 'code'> | undefined): EndState {
  if (error === undefined) return 'done'
  if (error.code === 'cancelled') return 'cancelled'
  return error.code === 'timeout' ? 'timed_out' : 'failed'
}

/** Counters of an engine's work. */
export type Counts = Omit<
  EngineStatistics,
  | 'waiting'
  | 'running'
  | 'slots'
  | 'policyFaults'
  | 'interruptedSteps'
  | 'recorder'
  | 'cache'
  | 'kvPool'
>

/** The fields of a step that are counted. */
export type StepTotals = Pick<
  StepRecord,
  | 'durationMs'
  | 'decodeMs'
  | 'sampleMs'
  | 'prefillTokens'
  | 'prefillSequences'
  | 'decodeSequences'
  | 'draftSequences'
  | 'draftTokens'
  | 'acceptedTokens'
>

/** Counts work since the start. */
@injectable()
export class Counters implements EngineObserver {
  readonly requests: Record<EndState, number> = { done: 0, cancelled: 0, failed: 0, timed_out: 0 }
  busyMs = 0
  readonly #composition = new StepCounters()
  readonly #prefill = new PrefillTime()
  readonly #totals = {
    promptTokens: 0,
    cachedTokens: 0,
    generatedTokens: 0,
    preemptions: 0,
    steps: 0,
    decodeMs: 0,
    sampleMs: 0,
  }
  readonly #speculation = { drafts: 0, draftTokens: 0, acceptedTokens: 0 }

  onStep(step: StepTotals): void {
    const totals = this.#totals
    this.#composition.count(step)
    this.#prefill.count(step)
    totals.steps++
    totals.decodeMs += step.decodeMs
    totals.sampleMs += step.sampleMs
    this.#speculation.drafts += step.draftSequences
    this.#speculation.draftTokens += step.draftTokens
    this.#speculation.acceptedTokens += step.acceptedTokens
  }

  onTurn(durationMs: number): void {
    this.busyMs += durationMs
  }

  onRefused(_id: string, error: CllmError): void {
    this.requests[endState(error)]++
  }

  onEnded({ preemptions }: SequenceView, { state, usage }: RequestEnd): void {
    this.countRequest(state, usage, preemptions)
  }

  /** Each request is counted once, with its last event. */
  countRequest(state: EndState, usage: Usage, preemptions: number): void {
    const totals = this.#totals
    this.requests[state]++
    totals.promptTokens += usage.promptTokens
    totals.cachedTokens += usage.cachedTokens
    totals.generatedTokens += usage.generatedTokens
    totals.preemptions += preemptions
  }

  snapshot(): Counts {
    const { requests, busyMs } = this
    const composition = this.#composition.snapshot()
    const speculation = this.#speculation.drafts > 0 ? { ...this.#speculation } : undefined
    const { ms: prefillMs } = this.#prefill
    const all = { ...this.#totals, ...composition, prefillMs, requests: { ...requests }, busyMs }
    return { ...all, ...defined({ speculation }) }
  }
}
