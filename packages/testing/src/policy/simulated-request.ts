import type { DraftView, RequestState, SequenceView } from '@cllm/core'
import type { WorkloadRequest } from './policy-workload.js'

const guess: DraftView = Object.freeze({ tokens: 2, acceptance: 0.5 })

/**
 * A request in a simulation. It is frozen: a policy that writes to it gets a TypeError. Its fields
 * are its own, as fast to read as in the engine's requests.
 */
export class SimulatedRequest implements SequenceView {
  readonly id: string
  readonly arrival: number
  readonly priority: number
  readonly deadline: number | undefined
  readonly tenant: string
  readonly session: string | undefined
  readonly stepGroup: string | undefined
  readonly promptTokens: number
  readonly maxTokens: number
  #state: RequestState = 'queued'
  #generated = 0
  #computed = 0
  #preemptions = 0

  readonly #cached: number
  readonly #output: number

  constructor(workload: WorkloadRequest) {
    this.id = workload.id
    this.arrival = workload.arrival
    this.priority = workload.priority
    this.deadline = workload.deadline
    this.tenant = workload.tenant
    this.session = workload.session
    this.stepGroup = workload.stepGroup
    this.promptTokens = workload.promptTokens
    this.maxTokens = workload.maxTokens
    this.#cached = workload.cachedTokens
    this.#output = workload.outputTokens
    Object.freeze(this)
  }

  get state(): RequestState {
    return this.#state
  }
  get generatedTokens(): number {
    return this.#generated
  }
  get computedTokens(): number {
    return this.#computed
  }
  get preemptions(): number {
    return this.#preemptions
  }
  get isWaiting(): boolean {
    return this.#state === 'queued' || this.#state === 'preempted'
  }
  get draft(): DraftView | undefined {
    // Now and then, as where the engine guesses.
    return this.#state === 'decoding' && this.#generated % 3 === 1 ? guess : undefined
  }
  get remainingTokens(): number {
    const done = this.isWaiting ? this.#cached : this.#computed
    return this.promptTokens + this.#generated - done
  }

  admit(): void {
    this.#state = 'prefilling'
    this.#computed = this.#cached
  }

  preempt(): void {
    this.#state = 'preempted'
    this.#computed = 0
    this.#preemptions++
  }

  /** Computes tokens and, with the last of them, draws the next one. Returns whether that ends it. */
  compute(tokens: number): boolean {
    this.#computed += tokens
    if (this.remainingTokens > 0) return false
    this.#state = 'decoding'
    this.#generated++
    return this.#generated === this.#output
  }

  end(state: 'done' | 'cancelled' | 'failed'): void {
    this.#state = state
    this.#computed = 0
  }
}
