import type { Backend } from '../contracts/backend.js'
import type { KvSlots } from './kv-slots.js'
import { isFree, type Slot } from './slot-index.js'

interface Move {
  readonly from: Slot
  readonly to: Slot
  /** Milliseconds that each later step takes less. */
  readonly savedMs: number
}

/**
 * Moves running sequences to slots in which steps are shorter, one at a time, where the backend says
 * what places cost (`layoutMs`).
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
    const move = this.#best()
    if (move === undefined) {
      this.#lostMs = 0
      return
    }
    const { costs } = this.slots
    const { from, to, savedMs } = move
    const { owner } = from
    const price = costs.copyMs + costs.reuseShare * costs.prefillMs(to.length)
    const stepsLeft = owner === undefined ? 0 : owner.maxTokens - owner.generatedTokens
    this.#lostMs += savedMs
    if (this.#lostMs < price || savedMs * stepsLeft < price) return
    this.#lostMs = 0
    await this.slots.move(from, to)
  }

  /** The best place for the running sequence in the highest slot. */
  #best(): Move | undefined {
    const { backend } = this
    const used = this.slots.all.filter((slot) => !isFree(slot))
    const from = used.at(-1)
    if (from === undefined || backend.layoutMs === undefined || used.length < 2) return undefined
    const now = backend.layoutMs(used.map((slot) => slot.id))
    if (now <= 0) return undefined
    const others = used.slice(0, -1).map((slot) => slot.id)
    let best: Move | undefined
    for (const to of this.slots.all) {
      if (!isFree(to)) continue
      const savedMs = now - backend.layoutMs([...others, to.id])
      if (
        savedMs > (best?.savedMs ?? 0) ||
        (savedMs === best?.savedMs && to.length < best.to.length)
      )
        best = { from, to, savedMs }
    }
    return best
  }
}
