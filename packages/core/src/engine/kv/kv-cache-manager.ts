import { inject, injectable } from 'tsyringe'
import { minimumWait } from './block-chain.js'
import type { Backend } from '../../contracts/model/backend.js'
import type { Clock } from '../../contracts/services.js'
import type { CacheStatistics } from '../../contracts/engine/engine-statistics.js'
import { ENGINE_COSTS, type EngineCosts } from '../costs/engine-costs.js'
import * as tokens from '../../tokens.js'
import { copyPrefix, release, toError, truncate } from '../backend-calls.js'
import { PREFIX_INDEX, type PrefixIndex, type PrefixProducer, type Slot } from '../engine-parts.js'
import { BetweenSteps } from '../loop/between-steps.js'
import { BaseCacheManager } from './base-cache-manager.js'
import { heldTokens } from './prefix-index.js'
import { SlotChooser, type SlotChoice, originOf } from './slot-chooser.js'
import { StateSaver } from './states/saving.js'
import { StateCache } from './states/state-cache.js'
import type { Sequence } from '../requests/sequence.js'

/** Gives slots to sequences, and reuses the tokens that earlier sequences computed. */
@injectable()
export class SlotCacheManager extends BaseCacheManager {
  /** The latest look-up of each waiting sequence, with the version of the index that it is valid for. */
  readonly #found = new WeakMap<Sequence, { readonly version: number; readonly tokens: number }>()
  readonly #chooser: SlotChooser
  readonly #saver: StateSaver

  constructor(
    @inject(tokens.BACKEND) backend: Backend,
    @inject(PREFIX_INDEX) index: PrefixIndex,
    @inject(tokens.CLOCK) private readonly clock: Clock,
    @inject(ENGINE_COSTS) private readonly costs: EngineCosts,
    @inject(StateCache) private readonly states: StateCache,
    @inject(BetweenSteps) between: BetweenSteps,
  ) {
    super(backend, index)
    this.#saver = new StateSaver(this.slots, states, clock, costs)
    if (states.isOn) between.add(this.#saver)
    this.#chooser = new SlotChooser(this.slots, index, costs, backend, states, clock)
  }

  lookUp(sequence: Sequence): number {
    const version = this.index.version + this.states.version
    const known = this.#found.get(sequence)
    if (known?.version === version) return known.tokens
    const tokens = this.#chooser.lookUp(sequence)
    this.#found.set(sequence, { version, tokens })
    return tokens
  }

  override producerOf(sequence: Sequence): PrefixProducer | undefined {
    const found = this.index.planned(sequence)
    if (found === undefined) return undefined
    const saved = found.shared - this.lookUp(sequence)
    const { costs } = this
    if (saved < minimumWait || costs.steps.tokensMs(saved) <= costs.copyMs) return undefined
    this.#saver.wantCheckpoint(found.sequence, found.shared)
    return found
  }

  /**
   * Whether `acquire` would delay other requests for little more than copies take. If not, what it needs is being made
   * ready: files are read, or memory is allocated.
   */
  override prepare(sequence: Sequence, insists: boolean): boolean {
    const { states } = this
    if (!states.isOn || (this.usedCount === 0 && !states.hasFiles)) return true
    const choice = this.#chooser.choose(sequence)
    const found = choice.from === 'state' ? choice.found : undefined
    if (!states.isAtHand(sequence, found)) return false
    if (insists || !this.costs.pauses.running.isAnyDecoding) return true
    return this.#saver.canBeLost(choice.slot, choice.kept)
  }

  override get isReading(): boolean {
    return this.states.hasFiles && this.states.isReading
  }

  /** A request waits from now on: if its state is in a file, that is read ahead. */
  override onWaiting(sequence: Sequence): void {
    if (!this.states.hasFiles) return
    this.states.readAhead(sequence, () => this.held(sequence), this.slots.length)
  }

  async acquire(sequence: Sequence): Promise<void> {
    const { costs, states } = this
    if (states.hasFiles) states.onWork(true)
    const pauseBegan = costs.pauses.running.isAnyDecoding ? this.clock.now() : undefined
    const choice = this.#chooser.choose(sequence)
    const { slot, kept } = choice
    // An alternative that was rejected as too slow counts as a little faster from now on, so that it is tried again.
    if (choice.passesOverCopy) costs.onCopyPassedOver()
    if (choice.passesOverState) costs.states.onPassedOver()
    // Where slots can be cut anywhere, the choice already has all tokens that are known.
    const known = states.cutsAnywhere
      ? choice.known
      : Math.max(choice.known, states.known(sequence))
    const restored =
      choice.from === 'state' ? [choice.found.state, choice.found.checkpoint] : [choice.checkpoint]
    const held = restored.filter((state) => state !== undefined && 'holds' in state)
    // Saving and reading evict states, but not these.
    for (const state of held) state.holds++
    try {
      if (slot.length > kept) await this.#saver.beforeLoss(slot, kept)
      this.index.drop(slot)
      this.give(slot, sequence)
      await this.#fill(choice, sequence)
    } finally {
      for (const state of held) state.holds--
    }
    const { computedTokens } = sequence
    if (states.isOn) {
      if (pauseBegan !== undefined) states.transfer.onPause(this.clock.now() - pauseBegan)
      if (computedTokens === 0 && sequence.preemptions === 0) states.transfer.counts.misses++
      sequence.origin = originOf(choice, sequence, known, states)
      if (!states.cutsAnywhere) this.#saver.planCheckpoints(sequence, known)
    }
    costs.onReuse(computedTokens / sequence.tokens.length)
    this.index.occupy(slot, sequence)
  }

  /** Fills the slot of a sequence as chosen; tokens that cannot be copied or restored are computed. */
  async #fill(choice: SlotChoice, sequence: Sequence): Promise<void> {
    const { backend, states } = this
    const { slot, shared } = choice
    let filled = 0
    try {
      if (choice.from === 'state') {
        const { found } = choice
        const length = states.canLoad(found) ? await states.load(slot, sequence, found) : 0
        if (length > 0) filled = truncate(backend, slot.id, found.shared)
      } else if (choice.checkpoint !== undefined) {
        const { transfer } = states
        const isThere =
          choice.from === 'slot' ||
          (await transfer.copy(choice.source.id, slot.id, heldTokens(choice.source)))
        if (isThere && (await transfer.restore(slot.id, choice.checkpoint))) filled = shared
      } else if (choice.from === 'copy') filled = await this.#copy(choice.source, slot, shared)
      else if (shared > 0) filled = truncate(backend, slot.id, shared)
      if (filled === 0 && (slot.length > 0 || shared > 0)) release(backend, slot.id)
      // A copy into a full slot may still be in progress, and must not be shifted.
      const isFull = sequence.request.shift !== undefined && filled === backend.limits.contextSize
      sequence.computedTokens = isFull ? truncate(backend, slot.id, filled - 1) : filled
    } catch (error) {
      // The slot's content is unknown now, and a slot that counts as empty must be empty.
      release(backend, slot.id)
      throw error
    }
  }

  /** Copies a prefix; 0 if that fails, and the tokens are computed. */
  async #copy(from: Slot, to: Slot, length: number): Promise<number> {
    const began = this.clock.now()
    try {
      return await copyPrefix(this.backend, from.id, to.id, length)
    } catch {
      return 0
    } finally {
      this.costs.onCopy(this.clock.now() - began)
    }
  }

  lossMs(slot: Slot): number {
    return this.#chooser.lossMs(slot, 0, 1)
  }

  /** The idle slots, in rising order of the cost of their loss for each token freed. */
  protected override inOrderOfLoss(idle: readonly Slot[]): readonly Slot[] {
    const isOfProgram = idle.some(({ program }) => program !== undefined)
    return isOfProgram ? this.#chooser.inOrderOfLoss(idle) : super.inOrderOfLoss(idle)
  }

  #empty(slot: Slot): void {
    slot.program = undefined
    try {
      release(this.backend, slot.id)
      slot.length = 0
    } catch {
      // No look-up finds its tokens, and it is emptied when it is next used.
    }
  }

  onAdvanced(sequence: Sequence): void {
    if (sequence.stops.length > 0) this.#saver.onAdvanced(sequence)
    const slot = this.slotOf(sequence)
    if (slot !== undefined) this.index.grow(slot, sequence)
  }

  truncate(sequence: Sequence, length: number): void {
    const slot = this.slotOf(sequence)
    if (slot === undefined) return
    const kept = truncate(this.backend, slot.id, length)
    const isLess = kept < sequence.computedTokens
    if (isLess) this.index.drop(slot)
    sequence.computedTokens = kept
    if (isLess) this.index.occupy(slot, sequence)
    else this.index.grow(slot, sequence)
  }

  /** Drops tokens of a full slot; the rest is removed from the index. */
  shift(sequence: Sequence, keep: number, discard: number): void {
    const slot = this.slotOf(sequence)
    if (slot === undefined) return
    this.index.unplan(sequence)
    this.index.drop(slot)
    try {
      this.backend.shift?.(slot.id, keep, discard)
    } catch (error) {
      throw toError(error, 'shift')
    }
    sequence.discarded += discard
  }

  override stopProducing(sequence: Sequence): void {
    this.index.unplan(sequence)
  }

  release(sequence: Sequence, now: number): void {
    const slot = this.slotOf(sequence)
    if (slot === undefined) return
    this.index.unplan(sequence)
    this.index.drop(slot)
    this.takeBack(slot, now)
    if (sequence.isShared) this.index.keep(slot, sequence)
    else this.#empty(slot)
    const { pin, keepMs } = sequence.request
    const isKept = sequence.finish !== undefined && (pin || keepMs !== undefined)
    if (isKept) this.#saver.addPin(slot, sequence.request, now)
  }

  /** Empties an idle slot, after saving its content if that is worth it. */
  async evict(slot: Slot): Promise<void> {
    await this.#saver.beforeLoss(slot, 0)
    this.index.drop(slot)
    this.#empty(slot)
  }

  async move(from: Slot, to: Slot): Promise<boolean> {
    const { owner } = from
    const length = owner?.slotTokens ?? 0
    if (owner === undefined || length === 0 || to.owner !== undefined) return false
    if (!(await this.#saver.beforeLoss(to, 0))) return false
    this.index.drop(to)
    to.program = undefined
    to.length = await this.#copy(from, to, length)
    if (to.length !== length) {
      this.#empty(to)
      return false
    }
    this.index.drop(from)
    from.owner = undefined
    from.length = length
    this.#empty(from)
    to.owner = owner
    owner.slot = to.id
    this.index.occupy(to, owner)
    return true
  }

  override cache(): CacheStatistics | undefined {
    return this.states.statistics()
  }
}
