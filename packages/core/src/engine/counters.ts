import type { EngineStatistics, StepStatistics } from '../contracts/engine-client.js'
import type { CllmError } from '../errors/cllm-error.js'
import type { StepOutcome, StepPart } from './run-step.js'
import type { Sequence } from './sequence.js'
import { StepCounters } from './step-counters.js'

/** How a request can end. */
export type EndState = 'done' | 'cancelled' | 'failed' | 'timed_out'

/** The state of a request that ended with this error, or with none. */
export function endState(error: CllmError | undefined): EndState {
  if (error === undefined) return 'done'
  if (error.code === 'cancelled') return 'cancelled'
  return error.code === 'timeout' ? 'timed_out' : 'failed'
}

type Counts = Omit<EngineStatistics, 'waiting' | 'running' | 'slots' | 'policyFaults'>

/** What the engine has done since its start. */
export class Counters {
  readonly requests: Record<EndState, number> = { done: 0, cancelled: 0, failed: 0, timed_out: 0 }
  busyMs = 0
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

  countStep(parts: readonly StepPart[], outcome: StepOutcome, durationMs: number): void {
    const totals = this.#totals
    this.#composition.count(parts, durationMs)
    totals.steps++
    totals.decodeMs += outcome.decodeMs
    totals.sampleMs += outcome.sampleMs
  }

  /** Each request is counted once, with its last event. */
  countRequest(sequence: Sequence, state: EndState): void {
    const totals = this.#totals
    this.requests[state]++
    totals.promptTokens += sequence.promptTokens
    totals.cachedTokens += sequence.cachedTokens
    totals.generatedTokens += sequence.emittedTokens
    totals.preemptions += sequence.preemptions
  }

  snapshot(): Counts {
    const { requests, busyMs } = this
    const composition: StepStatistics = this.#composition.snapshot()
    return { ...this.#totals, ...composition, requests: { ...requests }, busyMs }
  }
}
