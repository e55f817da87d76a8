import type { Clock } from '../../../contracts/services.js'
import type { SlotStates } from '../../../contracts/model/states.js'
import type { EngineCosts } from '../../costs/engine-costs.js'
import type { Slot } from '../../engine-parts.js'
import { blockSize, minimumWait } from '../block-chain.js'
import { type SavedState, lengthOf } from './state-index.js'
import type { StateStore } from './state-store.js'

/** The least chance that a conversation continues, whatever was learned. */
const leastChance = 0.1

/** What slots and states are worth: the milliseconds that they save, by the learned costs. */
export class StateWorth {
  /** @param states - undefined: nothing is ever saved */
  constructor(
    private readonly states: SlotStates | undefined,
    private readonly store: StateStore,
    private readonly costs: EngineCosts,
    private readonly clock: Pick<Clock, 'now'>,
  ) {}

  /**
   * The expected cost in milliseconds of losing an idle slot's content beyond its first `kept` tokens, if it is needed
   * again with this chance.
   */
  lossMs(slot: Slot, kept: number, chance: number): number {
    const computeMs = chance * this.costs.steps.tokensMs(Math.max(0, slot.length - kept))
    if (this.states === undefined || slot.length - kept < minimumWait) return computeMs
    const bytes = this.costs.states.bytesOf(slot.length)
    const saveMs = this.#isSaved(slot) ? 0 : this.costs.states.saveMs(bytes)
    return Math.min(computeMs, saveMs + chance * this.costs.states.loadMs(bytes))
  }

  /**
   * Whether a slot should be saved before it loses its content beyond the first `kept` tokens, because restoring it is
   * expected to save more time than saving takes.
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
    // A short loss must be worth it by itself: the tokens before it stay in the slot.
    return lost >= minimumWait || chance * steps.tokensMs(lost) > saveMs
  }

  /** The chance that a slot's content is needed again later. */
  #chance({ program }: Slot): number {
    const chance = program?.returnChance(this.clock.now()) ?? this.costs.reuseShare
    return Math.max(leastChance, chance)
  }

  /** Milliseconds that restoring a state saves, compared with computing the tokens that no other state has. */
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
