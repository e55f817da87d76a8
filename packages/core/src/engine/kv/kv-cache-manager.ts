import { inject, injectable } from 'tsyringe'
import { minimumWait } from './block-chain.js'
import type { Backend } from '../../contracts/model/backend.js'
import type { Clock } from '../../contracts/clock.js'
import type { CacheStatistics } from '../../contracts/engine/cache-statistics.js'
import type { EngineCosts } from '../costs/engine-costs.js'
import * as tokens from '../../tokens.js'
import { truncate } from '../backend-calls.js'
import type { PrefixIndex, PrefixProducer, Slot } from '../engine-parts.js'
import { BaseCacheManager } from './base-cache-manager.js'
import { isFree } from './prefix-index.js'
import { SlotChooser, keptBy, originOf } from './slot-chooser.js'
import { SlotFiller } from './slot-filler.js'
import { Checkpoints, Pins, SaveAhead } from './states/saving.js'
import { whileHeld } from './states/saved-state.js'
import { StateCache } from './states/state-cache.js'
import type { Sequence } from '../requests/sequence.js'

/** Gives slots to sequences and reuses the tokens that earlier ones computed in them. */
@injectable()
export class SlotCacheManager extends BaseCacheManager {
  /** What the last look-up of a waiting sequence found, and in which version of the index. */
  readonly #found = new WeakMap<Sequence, { readonly version: number; readonly tokens: number }>()
  readonly #chooser: SlotChooser
  readonly #filler: SlotFiller
  readonly #checkpoints: Checkpoints
  readonly #pins: Pins
  readonly #ahead: SaveAhead

  constructor(
    @inject(tokens.BACKEND) backend: Backend,
    @inject(tokens.PREFIX_INDEX) index: PrefixIndex,
    @inject(tokens.CLOCK) private readonly clock: Clock,
    @inject(tokens.ENGINE_COSTS) private readonly costs: EngineCosts,
    @inject(StateCache) private readonly states: StateCache,
  ) {
    super(backend, index)
    this.#checkpoints = new Checkpoints(states)
    this.#pins = new Pins(states, clock)
    this.#ahead = new SaveAhead(states, clock, costs)
    this.#chooser = new SlotChooser(this.slots, index, costs, backend, states)
    this.#filler = new SlotFiller(backend, clock, costs, states)
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
    if (sequence.tokens.length <= minimumWait) return undefined
    const found = this.index.planned(sequence)
    if (found === undefined) return undefined
    const saved = found.shared - this.lookUp(sequence)
    const { costs } = this
    if (saved < minimumWait || costs.steps.tokensMs(saved) <= costs.copyMs) return undefined
    this.#checkpoints.want(found.sequence, found.shared)
    return found
  }

  /**
   * Whether `acquire` would keep requests that decode from their next token, and others from their turn,
   * for little more than copies take. Otherwise what it needs is made ready meanwhile.
   */
  override prepare(sequence: Sequence, insists: boolean): boolean {
    const { states } = this
    const isAlone = this.slots.every(isFree)
    if (!states.isOn || (isAlone && !states.hasFiles)) return true
    const choice = this.#chooser.choose(sequence)
    if (!states.isAtHand(sequence, choice.found)) return false
    if (insists || !this.costs.pauses.isAnyDecoding()) return true
    return states.isReady(choice.slot, keptBy(choice))
  }

  /** Whether files are being read. */
  override get isReading(): boolean {
    return this.states.isReading
  }

  /** A request waits from now on: what is in a file for it is read meanwhile. */
  override onWaiting(sequence: Sequence): void {
    const held = () => Math.max(this.index.idle(sequence), this.index.running(sequence))
    this.states.readAhead(sequence, held, this.slots.length)
  }

  /** Gives the sequence a slot, with as much of its prefix as can be had without computing. */
  async acquire(sequence: Sequence): Promise<void> {
    const { costs, states } = this
    states.onWork(true)
    const pauseBegan = costs.pauses.isAnyDecoding() ? this.clock.now() : undefined
    const choice = this.#chooser.choose(sequence)
    const { slot } = choice
    this.#chooser.onChosen(choice)
    const known = states.isOn ? this.#chooser.known(sequence) : 0
    // Saving and reading states make room, and not among these.
    const needed = [choice.found?.state, choice.found?.checkpoint, choice.checkpoint]
    await whileHeld(needed, async () => {
      await this.#beforeLoss(slot, keptBy(choice))
      this.index.drop(slot)
      this.give(slot, sequence)
      await this.#filler.fill(choice, sequence)
    })
    if (pauseBegan !== undefined) states.transfer.onPause(this.clock.now() - pauseBegan)
    if (states.isOn) sequence.origin = originOf(choice, sequence, known, states)
    if (sequence.computedTokens === 0) states.onMiss()
    costs.onReuse(sequence.computedTokens / sequence.tokens.length)
    this.#checkpoints.plan(sequence, known)
    this.index.occupy(slot, sequence)
  }

  /** Whether `settle` has something to save before the next step. */
  get isDue(): boolean {
    return this.#checkpoints.isDue || this.#pins.isDue
  }

  async settle(): Promise<void> {
    await this.#checkpoints.settle()
    await this.#pins.settle()
  }

  /** The sequence has computed more of its tokens. */
  onAdvanced(sequence: Sequence): void {
    this.#checkpoints.onAdvanced(sequence)
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
    this.index.drop(slot)
    this.takeBack(slot, now)
    if (sequence.isShared) this.index.keep(slot, sequence)
    else this.#filler.empty(slot)
    if (sequence.finish !== undefined) this.#pins.add(slot, sequence.request, now)
  }

  /** Empties a slot without an owner; what others may want again is saved before. */
  async evict(slot: Slot): Promise<void> {
    await this.#beforeLoss(slot, 0)
    this.index.drop(slot)
    this.#filler.empty(slot)
  }

  /** Moves a running sequence into a free slot; returns whether that succeeded. */
  async move(from: Slot, to: Slot): Promise<boolean> {
    const { owner } = from
    const length = owner?.slotTokens ?? 0
    if (owner === undefined || length === 0 || !isFree(to)) return false
    if (!(await this.#beforeLoss(to, 0))) return false
    this.index.drop(to)
    to.length = await this.#filler.copy(from, to, length)
    if (to.length !== length) {
      this.#filler.empty(to)
      return false
    }
    this.index.drop(from)
    from.owner = undefined
    from.length = length
    this.#filler.empty(from)
    to.owner = owner
    owner.slot = to.id
    this.index.occupy(to, owner)
    return true
  }

  /** Saves what idle slots hold, where that outlives the engine. */
  async onClose(): Promise<void> {
    await this.states.close(this.slots)
  }

  /** Saves what an idle slot holds, if that is to be had back, and its time has come. */
  async onIdle(): Promise<number | undefined> {
    this.states.onWork(false)
    return await this.#ahead.run(this.slots)
  }

  /** What the tiers behind the slots hold; undefined without any. */
  override cache(): CacheStatistics | undefined {
    return this.states.statistics()
  }

  /** What an idle slot is about to lose is saved, where that is wanted; false where there was no time. */
  async #beforeLoss(slot: Slot, kept: number): Promise<boolean> {
    if (!this.states.isOn) return true
    await this.#pins.beforeLoss(slot, kept)
    return await this.states.beforeLoss(slot, kept)
  }
}
