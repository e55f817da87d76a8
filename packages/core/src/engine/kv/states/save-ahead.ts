import type { Clock } from '../../../contracts/clock.js'
import type { EngineCosts } from '../../costs/engine-costs.js'
import type { Slot } from '../../engine-parts.js'
import type { BlockChain } from '../block-chain.js'
import type { StateCache } from './state-cache.js'

/** A slot that was idle for this long, and for so many times what saving takes, is saved ahead. */
const leastRestMs = 1000
const restShare = 10

/**
 * Saves idle slots that would be lost otherwise, while there is nothing to compute. Not at once: the next
 * turn of a conversation often comes soon, and would wait for it.
 */
export class SaveAhead {
  /** What was saved, once: where not all fits, one would drop the other for ever. */
  readonly #saved = new WeakMap<BlockChain, number>()

  constructor(
    private readonly states: StateCache,
    private readonly clock: Clock,
    private readonly costs: EngineCosts,
  ) {}

  /** Saves one slot whose time has come. Returns when to ask again, if at all. */
  async run(slots: readonly Slot[]): Promise<number | undefined> {
    const { transfer, worth, isOn, hasFiles } = this.states
    const isNeeded = hasFiles || transfer.counts.saved + transfer.counts.skipped > 0
    if (!isOn || !isNeeded) return undefined
    const now = this.clock.now()
    let next = Infinity
    for (const slot of slots) {
      const { chain, owner, length } = slot
      const isNew = chain !== undefined && this.#saved.get(chain) !== length
      if (owner !== undefined || !isNew || !worth.isWorthSaving(slot)) continue
      const at = slot.usedAt + this.#restMs(length)
      next = Math.min(next, at)
      if (at > now) continue
      this.#saved.set(chain, length)
      await transfer.save(slot)
      return now
    }
    return next === Infinity ? undefined : next
  }

  /** Milliseconds that a slot of so many tokens is idle before it is saved. */
  #restMs(tokens: number): number {
    const { states } = this.costs
    return Math.max(leastRestMs, restShare * states.saveMs(states.bytesOf(tokens)))
  }
}
