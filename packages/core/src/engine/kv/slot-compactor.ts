import { inject, injectable } from 'tsyringe'
import type { Backend } from '../../contracts/model/backend.js'
import * as tokens from '../../tokens.js'
import { layoutMs } from '../backend-calls.js'
import { ENGINE_COSTS, type EngineCosts } from '../costs/engine-costs.js'
import { KV_CACHE_MANAGER, type KVCacheManager, type Slot } from '../engine-parts.js'
import type { LoopWork } from '../loop/between-steps.js'
import { StateCache } from './states/state-cache.js'

interface Move {
  readonly from: Slot
  readonly to: Slot
}

interface Relocation {
  readonly moves: readonly Move[]
  /** The cost in milliseconds: copying, and losing the overwritten contents. */
  readonly priceMs: number
  /** Milliseconds saved over the remaining steps, minus `priceMs`. */
  readonly gainMs: number
}

/** The most sequences that move at once. */
const mostMoves = 4

/**
 * Moves running sequences to slots in which steps are shorter, where the backend reports the cost of
 * layouts (`layoutMs`).
 *
 * How long the sequences will stay is unknown, and the next request may fill the gap. So a move waits
 * until the gap has cost as much as the move will: never more than twice the best that could have
 * been done (ski rental: Karlin, Manasse, Rudolph, Sleator, "Competitive snoopy caching", 1988).
 */
@injectable()
export class SlotCompactor implements LoopWork {
  /** Milliseconds that the present gap has cost the steps since it appeared or was last examined. */
  #lostMs = 0

  constructor(
    @inject(KV_CACHE_MANAGER) private readonly kv: KVCacheManager,
    @inject(ENGINE_COSTS) private readonly costs: EngineCosts,
    @inject(tokens.BACKEND) private readonly backend: Backend,
    @inject(StateCache) private readonly states: StateCache,
  ) {}

  /** Moves running requests to better slots, if that is worth it. */
  beforeStep(): Promise<void> | undefined {
    if (this.backend.layoutMs === undefined) return undefined
    const used: Slot[] = []
    for (const slot of this.kv.slots) if (slot.owner !== undefined) used.push(slot)
    // A single sequence has no gap to another.
    if (used.length < 2) {
      this.#lostMs = 0
      return undefined
    }
    const lostMs = this.#layoutMs(used)
    this.#lostMs = lostMs > 0 ? this.#lostMs + lostMs : 0
    const isWorthALook = lostMs > 0 && this.#lostMs >= this.costs.copyMs
    return isWorthALook ? this.#defragment(used, lostMs) : undefined
  }

  async #defragment(used: readonly Slot[], layoutMs: number): Promise<void> {
    const best = this.#best(used, layoutMs)
    if (best !== undefined && this.#lostMs < best.priceMs) return
    this.#lostMs = 0
    for (const { from, to } of best?.moves ?? []) await this.kv.move(from, to)
  }

  /** The best relocation of some sequences from either end. */
  #best(used: readonly Slot[], layoutMs: number): Relocation | undefined {
    const free = this.kv.slots.filter(({ owner }) => owner === undefined)
    let best: Relocation | undefined
    for (const fromEnd of [used.toReversed(), used]) {
      for (let count = 1; count <= Math.min(mostMoves, used.length - 1, free.length); count++) {
        const found = this.#relocate(fromEnd.slice(0, count), fromEnd.slice(count), free, layoutMs)
        if (found.gainMs > (best?.gainMs ?? 0)) best = found
      }
    }
    return best
  }

  #relocate(
    moving: readonly Slot[],
    staying: readonly Slot[],
    free: readonly Slot[],
    layoutMs: number,
  ): Relocation {
    const { costs, states } = this
    const used = [...staying]
    const moves: Move[] = []
    let priceMs = 0
    for (const from of moving) {
      const to = this.#cheapest(free, used)
      used.push(to)
      moves.push({ from, to })
      priceMs += costs.copyMs + states.worth.lossMs(to, 0, costs.reuseShare)
    }
    const steps = Math.min(...moving.map(stepsLeft))
    return { moves, priceMs, gainMs: (layoutMs - this.#layoutMs(used)) * steps - priceMs }
  }

  /** The cheapest slot beside the used ones; on a tie, the one with the fewest tokens. */
  #cheapest(free: readonly Slot[], used: readonly Slot[]): Slot {
    const costOf = (slot: Slot): number => this.#layoutMs([...used, slot])
    const unused = free.filter((slot) => !used.includes(slot))
    return unused.reduce((best, slot) => {
      const difference = costOf(slot) - costOf(best)
      return difference < 0 || (difference === 0 && slot.length < best.length) ? slot : best
    })
  }

  #layoutMs(used: readonly Slot[]): number {
    return layoutMs(
      this.backend,
      used.map(({ id }) => id),
    )
  }
}

const stepsLeft = ({ owner }: Slot): number =>
  owner === undefined ? 0 : owner.maxTokens - owner.generatedTokens
