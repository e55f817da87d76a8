import { inject, injectable } from 'tsyringe'
import { minimumWait } from './block-chain.js'
import type { Backend } from '../../contracts/model/backend.js'
import type { Clock } from '../../contracts/services.js'
import type { CacheStatistics } from '../../contracts/engine/engine-statistics.js'
import { ENGINE_COSTS, type EngineCosts } from '../costs/engine-costs.js'
import * as tokens from '../../tokens.js'
import { copyPrefix, truncate } from '../backend-calls.js'
import { PREFIX_INDEX, type PrefixIndex, type PrefixProducer, type Slot } from '../engine-parts.js'
import { BetweenSteps } from '../loop/between-steps.js'
import { BaseCacheManager } from './base-cache-manager.js'
import { heldTokens } from './prefix-index.js'
import { SlotChooser, type SlotChoice, originOf } from './slot-chooser.js'
import { StateSaver } from './states/saving.js'
import { StateCache } from './states/state-cache.js'
import { Programs } from '../programs/programs.js'
import type { Sequence } from '../requests/sequence.js'

/** Gives slots to sequences and reuses the tokens that earlier ones computed in them. */
@injectable()
export class SlotCacheManager extends BaseCacheManager {
  /** What the last look-up of a waiting sequence found, and in which version of the index. */
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
    @inject(Programs) private readonly programs: Programs,
  ) {
    super(backend, index)
    this.#saver = new StateSaver(this.slots, states, clock, costs)
    if (states.isOn) between.add(this.#saver)
    this.#chooser = new SlotChooser(this.slots, index, costs, backend, states, programs)
    programs.lossMs = (slot) => this.#chooser.lossMs(slot, 0, 1)
  }

  /** How many tokens of a waiting sequence need not be computed if it is admitted now. */
  lookUp(sequence: Sequence): number {
    const version = this.index.version + this.states.version
    const known = this.#found.get(sequence)
    if (known?.version === version) return known.tokens
    const tokens = this.#chooser.lookUp(sequence)
    this.#found.set(sequence, { version, tokens })
    return tokens
  }

  /**
   * The running request that computes what this waiting sequence begins with, when waiting for that
   * and copying it is cheaper than computing it a second time.
   */
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
   * Whether `acquire` would keep requests that decode from their next token, and others from their turn,
   * for little more than copies take. Otherwise what it needs is made ready meanwhile.
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

  /** Whether files are being read. */
  override get isReading(): boolean {
    return this.states.hasFiles && this.states.isReading
  }

  /** A request waits from now on: what is in a file for it is read meanwhile. */
  override onWaiting(sequence: Sequence): void {
    if (!this.states.hasFiles) return
    this.states.readAhead(sequence, () => this.held(sequence), this.slots.length)
  }

  /** Gives the sequence a slot, with as much of its prefix as can be had without computing. */
  async acquire(sequence: Sequence): Promise<void> {
    const { costs, states } = this
    if (states.hasFiles) states.onWork(true)
    const pauseBegan = costs.pauses.running.isAnyDecoding ? this.clock.now() : undefined
    const choice = this.#chooser.choose(sequence)
    const { slot, kept } = choice
    // What was passed over is thought of as cheaper from now on.
    if (choice.passesOverCopy) costs.onCopyPassedOver()
    if (choice.passesOverState) costs.states.onPassedOver()
    // Where slots can be cut, what was found is all that is known.
    const known = states.cutsAnywhere
      ? choice.known
      : Math.max(choice.known, states.known(sequence))
    const restored =
      choice.from === 'state' ? [choice.found.state, choice.found.checkpoint] : [choice.checkpoint]
    const held = restored.filter((state) => state !== undefined && 'holds' in state)
    // Saving and reading states make room, and not among these.
    for (const state of held) state.holds++
    try {
      if (slot.length > kept) await this.#saver.beforeLoss(slot, kept)
      this.#lose(slot)
      this.give(slot, sequence)
      await this.#fill(choice, sequence)
    } finally {
      for (const state of held) state.holds--
    }
    const { computedTokens } = sequence
    if (states.isOn) {
      if (pauseBegan !== undefined) states.transfer.onPause(this.clock.now() - pauseBegan)
      if (computedTokens === 0) states.transfer.counts.misses++
      sequence.origin = originOf(choice, sequence, known, states)
      if (!states.cutsAnywhere) this.#saver.planCheckpoints(sequence, known)
    }
    costs.onReuse(computedTokens / sequence.tokens.length)
    this.index.occupy(slot, sequence)
  }

  /** Fills the slot of a sequence as chosen; what cannot be had is computed. */
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
      if (filled === 0 && (slot.length > 0 || shared > 0)) backend.release(slot.id)
      // What is copied into a full slot may be on its way yet, and is not to be moved.
      const isFull = sequence.request.shift !== undefined && filled === backend.limits.contextSize
      sequence.computedTokens = isFull ? truncate(backend, slot.id, filled - 1) : filled
    } catch (error) {
      // What it holds now is unknown, and a slot that counts as empty must be empty.
      backend.release(slot.id)
      throw error
    }
  }

  /** A copy that fails leaves nothing: what cannot be copied is computed. */
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

  /** What an idle slot holds can no longer be found. */
  #lose(slot: Slot): void {
    this.index.drop(slot)
    this.programs.onLost(slot)
  }

  /** That whose loss costs the least for each token that it frees. */
  protected override inOrderOfLoss(idle: readonly Slot[]): readonly Slot[] {
    const { programs } = this
    return programs.slots.size > 0 ? this.#chooser.inOrderOfLoss(idle) : super.inOrderOfLoss(idle)
  }

  #empty(slot: Slot): void {
    try {
      this.backend.release(slot.id)
      slot.length = 0
    } catch {
      // It has no tokens that a look-up could find, and is emptied when it is next used.
    }
  }

  /** The sequence has computed more of its tokens. */
  onAdvanced(sequence: Sequence): void {
    if (sequence.stops.length > 0) this.#saver.onAdvanced(sequence)
    const slot = this.slotOf(sequence)
    if (slot !== undefined) this.index.grow(slot, sequence)
  }

  /** Takes drafts that were not drawn off the slot. */
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

  /** Drops tokens of a full slot: what is left can be found by nobody. */
  shift(sequence: Sequence, keep: number, discard: number): void {
    const slot = this.slotOf(sequence)
    if (slot === undefined) return
    this.index.unplan(sequence)
    this.index.drop(slot)
    this.backend.shift?.(slot.id, keep, discard)
    sequence.discarded += discard
  }

  /** No request is to wait for what this sequence computes. */
  override stopProducing(sequence: Sequence): void {
    this.index.unplan(sequence)
  }

  /** Takes the slot back and keeps its tokens for reuse, if they may be shared. */
  release(sequence: Sequence, now: number): void {
    const slot = this.slotOf(sequence)
    if (slot === undefined) return
    this.index.unplan(sequence)
    this.index.drop(slot)
    this.takeBack(slot, now)
    if (sequence.isShared) {
      this.index.keep(slot, sequence)
      if (sequence.program !== undefined) this.programs.onKept(sequence.program, slot)
    } else this.#empty(slot)
    const { pin, keepMs } = sequence.request
    const isKept = sequence.finish !== undefined && (pin || keepMs !== undefined)
    if (isKept) this.#saver.addPin(slot, sequence.request, now)
  }

  /** Empties a slot without an owner; what others may want again is saved before. */
  async evict(slot: Slot): Promise<void> {
    await this.#saver.beforeLoss(slot, 0)
    this.#lose(slot)
    this.#empty(slot)
  }

  /** Moves a running sequence into a free slot; returns whether that succeeded. */
  async move(from: Slot, to: Slot): Promise<boolean> {
    const { owner } = from
    const length = owner?.slotTokens ?? 0
    if (owner === undefined || length === 0 || to.owner !== undefined) return false
    if (!(await this.#saver.beforeLoss(to, 0))) return false
    this.#lose(to)
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

  /** What the tiers behind the slots hold; undefined without any. */
  override cache(): CacheStatistics | undefined {
    return this.states.statistics()
  }
}
