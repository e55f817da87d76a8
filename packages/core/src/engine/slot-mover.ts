import type { Backend } from '../contracts/backend.js'
import type { KvSlots } from './kv-slots.js'
import { isFree, type Slot } from './slot-index.js'

interface Move {
  readonly from: Slot
  readonly to: Slot
}

interface Relocation {
  readonly moves: readonly Move[]
  /** Milliseconds that the copies take and what they overwrite is worth. */
  readonly priceMs: number
  /** Milliseconds that it saves over all steps that are left, the price taken off. */
  readonly gainMs: number
}

/** More sequences than this do not move at once. */
const mostMoves = 4

/**
 * Moves running sequences to slots in which steps are shorter, where the backend says what places
 * cost (`layoutMs`).
 *
 * How long the sequences will stay is unknown, and the next request may fill the gap. So a move waits
 * until the gap has cost as much as the move will: never more than twice the best that could have
 * been done (ski rental: Karlin, Manasse, Rudolph, Sleator, "Competitive snoopy caching", 1988).
 */
export class SlotMover {
  #lostMs = 0

  constructor(
    private readonly slots: KvSlots,
    private readonly backend: Backend,
  ) {}

  /** Called before each step. */
  async move(): Promise<void> {
    const used = this.slots.all.filter((slot) => !isFree(slot))
    const layoutMs = this.#layoutMs(used)
    if (layoutMs <= 0) {
      this.#lostMs = 0
      return
    }
    this.#lostMs += layoutMs
    if (this.#lostMs < this.slots.costs.copyMs) return
    const best = this.#best(used, layoutMs)
    if (best !== undefined && this.#lostMs < best.priceMs) return
    this.#lostMs = 0
    for (const { from, to } of best?.moves ?? []) await this.slots.move(from, to)
  }

  /** The best that moving some sequences from either end can do. */
  #best(used: readonly Slot[], layoutMs: number): Relocation | undefined {
    const free = this.slots.all.filter(isFree)
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
    const { costs } = this.slots
    const used = [...staying]
    const moves: Move[] = []
    let priceMs = 0
    for (const from of moving) {
      const to = this.#cheapest(
        free.filter((slot) => !used.includes(slot)),
        used,
      )
      used.push(to)
      moves.push({ from, to })
      priceMs += costs.copyMs + costs.reuseShare * costs.prefillMs(to.length)
    }
    const steps = Math.min(...moving.map(stepsLeft))
    return { moves, priceMs, gainMs: (layoutMs - this.#layoutMs(used)) * steps - priceMs }
  }

  /** The slot that costs least beside those used; of equal ones that which holds the least. */
  #cheapest(free: readonly Slot[], used: readonly Slot[]): Slot {
    const costOf = (slot: Slot): number => this.#layoutMs([...used, slot])
    return free.reduce((best, slot) => {
      const difference = costOf(slot) - costOf(best)
      return difference < 0 || (difference === 0 && slot.length < best.length) ? slot : best
    })
  }

  #layoutMs(used: readonly Slot[]): number {
    return this.backend.layoutMs?.(used.map((slot) => slot.id)) ?? 0
  }
}

function stepsLeft({ owner }: Slot): number {
  return owner === undefined ? 0 : owner.maxTokens - owner.generatedTokens
}
