import type { EngineStatistics } from '../contracts/engine-client.js'
import type { CllmError } from '../errors/cllm-error.js'
import type { StepOutcome } from './run-step.js'
import type { Sequence } from './sequence.js'

/** How a request can end. */
export type EndState = 'done' | 'cancelled' | 'failed' | 'timed_out'

/** The state of a request that ended with this error, or with none. */
export function endState(error: CllmError | undefined): EndState {
  if (error === undefined) return 'done'
  if (error.code === 'cancelled') return 'cancelled'
  return error.code === 'timeout' ? 'timed_out' : 'failed'
}

type Counts = Omit<EngineStatistics, 'waiting' | 'running' | 'slots' | 'policyFaults' | 'busyMs'>

/** What the engine has done since its start. */
export class Counters {
  readonly requests: Record<EndState, number> = { done: 0, cancelled: 0, failed: 0, timed_out: 0 }
  busyMs = 0
  readonly #totals = {
    promptTokens: 0,
    cachedTokens: 0,
    generatedTokens: 0,
    preemptions: 0,
    steps: 0,
    decodeMs: 0,
    sampleMs: 0,
  }

  countStep(outcome: StepOutcome): void {
    const totals = this.#totals
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

  snapshot(): Counts & { readonly busyMs: number } {
    return { ...this.#totals, requests: { ...this.requests }, busyMs: this.busyMs }
  }
}
