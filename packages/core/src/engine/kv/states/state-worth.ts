import type { Clock } from '../../../contracts/services.js'
import type { SlotStates } from '../../../contracts/model/states.js'
import type { EngineCosts } from '../../costs/engine-costs.js'
import type { Slot } from '../../engine-parts.js'
import { blockSize, minimumWait } from '../block-chain.js'
import { type SavedState, lengthOf } from './state-index.js'
import type { StateStore } from './state-store.js'

/** A conversation is worth saving with at least this chance that it goes on. */
const leastChance = 0.1

/** What slots and states are worth, in milliseconds, by what was learned of costs. */
export class StateWorth {
  /** @param states - undefined: nothing is ever saved */
  constructor(
    private readonly states: SlotStates | undefined,
    private readonly store: StateStore,
    private readonly costs: EngineCosts,
    private readonly clock: Pick<Clock, 'now'>,
  ) {}

  /**
   * Milliseconds that it takes, in the mean, to have back what an idle slot holds beyond its first `kept`
   * tokens, when it is wanted with this chance.
   */
  lossMs(slot: Slot, kept: number, chance: number): number {
    const computeMs = chance * this.costs.steps.tokensMs(Math.max(0, slot.length - kept))
    if (this.states === undefined || slot.length - kept < minimumWait) return computeMs
    const bytes = this.costs.states.bytesOf(slot.length)
    const saveMs = this.#isSaved(slot) ? 0 : this.costs.states.saveMs(bytes)
    return Math.min(computeMs, saveMs + chance * this.costs.states.loadMs(bytes))
  }

  /**
   * Whether a slot is to be saved before it loses what is behind its first `kept` tokens: where having that
   * back is likely to save more time than saving takes.
   */
  isWorthSaving(slot: Slot, kept = 0): boolean {
    const { length } = slot
    const lost = length - kept
    if (this.states === undefined || lost < blockSize) return false
    if (slot.chain === undefined || length < minimumWait || this.#isSaved(slot)) return false
    const { steps, states } = this.costs
    const bytes = states.bytesOf(length)
    const saveMs = states.saveMs(bytes)
    const chance = this.#chance(slot)
    if (chance * (steps.tokensMs(length) - states.loadMs(bytes)) <= saveMs) return false
    // Few tokens are worth it only for themselves: what is before them stays in the slot.
    return lost >= minimumWait || chance * steps.tokensMs(lost) > saveMs
  }

  /** The chance that what a slot holds is wanted again, if not soon. */
  #chance({ program }: Slot): number {
    const chance = program?.returnChance(this.clock.now()) ?? this.costs.reuseShare
    return Math.max(leastChance, chance)
  }

  /** Milliseconds that restoring a state saves, against computing what no other state gives. */
  gainMs(state: SavedState): number {
    const { steps, states } = this.costs
    const canShare = (this.states?.cutsAnywhere ?? true) && !state.partial
    const shared = canShare ? this.store.index.sharedWithOthers(state) : 0
    return steps.tokensMs(lengthOf(state) - shared) - states.loadMs(state.bytes)
  }

  #isSaved({ chain, length }: Slot): boolean {
    if (chain === undefined) return false
    const { index } = this.store
    const isPart = this.states?.cutsAnywhere === true
    const found = isPart ? index.covering(chain, length) : index.find(chain, length, false)
    if (found !== undefined) this.store.renew(found)
    return found !== undefined
  }
}
