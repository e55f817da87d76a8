import { inject, injectable } from 'tsyringe'
import type { EngineObserver, StepRecord } from '../../contracts/engine/engine-observer.js'
import { RunningSet } from '../requests/running-set.js'
import { PauseBudget } from './pause-budget.js'
import { StateCosts } from './state-costs.js'
import { StepCostModel } from './step-cost-model.js'

/** After this many steps in which a copy was passed over, its cost counts as half of what it was. */
const copiesUntilHalf = 32
/** Weight of one admission in the share of tokens found in the cache. */
const weight = 1 / 16

/**
 * The costs that the engine's parts share, in milliseconds: the {@link StepCostModel} of its steps,
 * the costs of copies and of saved states, and the value of what a slot keeps.
 */
@injectable()
export class EngineCosts implements EngineObserver {
  /** What steps cost. */
  readonly steps = new StepCostModel()
  /** How long saving and restoring may take beside requests that decode. */
  readonly pauses: PauseBudget
  /** What saving and restoring slots costs. */
  readonly states = new StateCosts()
  #copies = 0
  #copyMs = 0
  #trust = 1
  #reuse = 0.5

  constructor(@inject(RunningSet) running: RunningSet) {
    this.pauses = new PauseBudget(() => running.isAnyDecoding)
  }

  /** What copying a slot adds to the next step. */
  get copyMs(): number {
    return this.#trust * this.steps.copyMs
  }

  /** The share of a slot's tokens that later requests are likely to find there, 0 to 1. */
  get reuseShare(): number {
    return this.#reuse
  }

  /** A request was admitted that found this share of its tokens in the cache. */
  onReuse(share: number): void {
    this.#reuse += weight * (share - this.#reuse)
  }

  /** A copy was made; the call took this long. */
  onCopy(ms: number): void {
    this.#copies++
    this.#copyMs += ms
    this.#trust = 1
  }

  /** Computing seemed cheaper than a copy. An estimate that is never tried again never changes. */
  onCopyPassedOver(): void {
    this.#trust *= 0.5 ** (1 / copiesUntilHalf)
  }

  /** Learns from a step, unless it was retried and its duration says nothing. */
  onStep({ parts, durationMs, isWhole }: StepRecord): void {
    this.pauses.onStep(durationMs)
    if (isWhole) this.steps.onStep(parts, durationMs + this.#copyMs, this.#copies)
    this.#copies = 0
    this.#copyMs = 0
  }
}
