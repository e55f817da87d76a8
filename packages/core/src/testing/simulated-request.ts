import type { RequestState, SequenceView } from '../contracts/scheduler-policy.js'
import type { WorkloadRequest } from './policy-workload.js'

/**
 * A request in a simulation. It is frozen and has only getters: a policy that writes to it gets a
 * TypeError.
 */
export class SimulatedRequest implements SequenceView {
  #state: RequestState = 'queued'
  #generated = 0
  #computed = 0
  #preemptions = 0

  constructor(readonly workload: WorkloadRequest) {
    Object.freeze(this)
  }

  get id(): string {
    return this.workload.id
  }
  get state(): RequestState {
    return this.#state
  }
  get arrival(): number {
    return this.workload.arrival
  }
  get priority(): number {
    return this.workload.priority
  }
  get deadline(): number | undefined {
    return this.workload.deadline
  }
  get tenant(): string {
    return this.workload.tenant
  }
  get session(): string | undefined {
    return this.workload.session
  }
  get stepGroup(): string | undefined {
    return this.workload.stepGroup
  }
  get promptTokens(): number {
    return this.workload.promptTokens
  }
  get maxTokens(): number {
    return this.workload.maxTokens
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
  get remainingTokens(): number {
    const done = this.isWaiting ? this.workload.cachedTokens : this.#computed
    return this.promptTokens + this.#generated - done
  }

  admit(): void {
    this.#state = 'prefilling'
    this.#computed = this.workload.cachedTokens
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
    return this.#generated === this.workload.outputTokens
  }

  end(state: 'done' | 'cancelled' | 'failed'): void {
    this.#state = state
    this.#computed = 0
  }
}
