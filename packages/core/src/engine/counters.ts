import type { Usage } from '../contracts/engine-client.js'
import type { EngineStatistics } from '../contracts/engine-statistics.js'
import type { StepRecord } from '../contracts/recording.js'
import type { CllmError } from '../errors/cllm-error.js'
import { recordOf, type Step, type StepOutcome } from './run-step.js'
import { StepCounters } from './step-counters.js'

/** How a request can end. */
export type EndState = 'done' | 'cancelled' | 'failed' | 'timed_out'

/** The state of a request that ended with this error, or with none. */
export function endState(error: Pick<CllmError, 'code'> | undefined): EndState {
  if (error === undefined) return 'done'
  if (error.code === 'cancelled') return 'cancelled'
  return error.code === 'timeout' ? 'timed_out' : 'failed'
}

/** What is counted of an engine's work. */
export type Counts = Omit<
  EngineStatistics,
  'waiting' | 'running' | 'slots' | 'policyFaults' | 'recorder'
>

/** What was done since the start. */
export class Counters {
  readonly requests: Record<EndState, number> = { done: 0, cancelled: 0, failed: 0, timed_out: 0 }
  busyMs = 0
  /** Told of each step that is computed here. */
  onStep: (step: StepRecord) => void = () => {}
  readonly #composition = new StepCounters()
  readonly #totals = {
    promptTokens: 0,
    cachedTokens: 0,
    generatedTokens: 0,
    preemptions: 0,
    steps: 0,
    decodeMs: 0,
    sampleMs: 0,
  }

  /** A step was computed until now. */
  stepped(step: Step, outcome: StepOutcome, now: number): void {
    const record = recordOf(step, outcome, now)
    this.countStep(record)
    this.onStep(record)
  }

  countStep(step: StepRecord): void {
    const totals = this.#totals
    this.#composition.count(step)
    totals.steps++
    totals.decodeMs += step.decodeMs
    totals.sampleMs += step.sampleMs
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
    return { ...this.#totals, ...composition, requests: { ...requests }, busyMs }
  }
}
