import type { Backend } from '../../contracts/model/backend.js'
import type { Clock } from '../../contracts/clock.js'
import { copyPrefix, truncate } from '../backend-calls.js'
import type { EngineCosts } from '../costs/engine-costs.js'
import type { Slot } from '../engine-parts.js'
import type { Sequence } from '../requests/sequence.js'
import type { SlotChoice } from './slot-chooser.js'
import { heldTokens } from './prefix-index.js'
import type { StateCache } from './states/state-cache.js'

/** Fills slots with what was chosen for them, and empties them. */
export class SlotFiller {
  constructor(
    private readonly backend: Backend,
    private readonly clock: Clock,
    private readonly costs: EngineCosts,
    private readonly states: StateCache,
  ) {}

  /** Fills the slot of a sequence as chosen; what cannot be had is computed. */
  async fill(choice: SlotChoice, sequence: Sequence): Promise<void> {
    const { backend } = this
    const { id } = choice.slot
    try {
      const filled = await this.#fill(choice, sequence)
      // What is copied into a full slot may be on its way yet, and is not to be moved.
      const isFull = sequence.request.shift !== undefined && filled === backend.limits.contextSize
      sequence.computedTokens = isFull ? truncate(backend, id, filled - 1) : filled
    } catch (error) {
      // What it holds now is unknown, and a slot that counts as empty must be empty.
      backend.release(id)
      throw error
    }
  }

  /** A copy that fails leaves nothing: what cannot be copied is computed. */
  async copy(from: Slot, to: Slot, length: number): Promise<number> {
    const began = this.clock.now()
    try {
      return await copyPrefix(this.backend, from.id, to.id, length)
    } catch {
      return 0
    } finally {
      this.costs.onCopy(this.clock.now() - began)
    }
  }

  empty(slot: Slot): void {
    try {
      this.backend.release(slot.id)
      slot.length = 0
    } catch {
      // It has no tokens that a look-up could find, and is emptied when it is next used.
    }
  }

  async #fill(choice: SlotChoice, sequence: Sequence): Promise<number> {
    const { slot, source, shared, found, checkpoint } = choice
    const { transfer } = this.states
    if (found !== undefined) {
      const length = this.states.canLoad(found) ? await this.states.load(slot, sequence, found) : 0
      if (length > 0) return truncate(this.backend, slot.id, found.shared)
    } else if (checkpoint !== undefined) {
      const held = heldTokens(source)
      const isThere = source === slot || (await transfer.copy(source.id, slot.id, held))
      if (isThere && (await transfer.restore(slot.id, checkpoint))) return shared
    } else if (source !== slot) {
      const copied = await this.copy(source, slot, shared)
      if (copied > 0) return copied
    } else if (slot.length === 0) {
      return 0
    } else if (shared > 0) {
      return truncate(this.backend, slot.id, shared)
    }
    this.backend.release(slot.id)
    return 0
  }
}
