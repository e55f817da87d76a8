import { inject, injectable } from 'tsyringe'
import type { Backend } from '../../../contracts/model/backend.js'
import type { CacheStatistics } from '../../../contracts/engine/cache-statistics.js'
import type { Clock } from '../../../contracts/clock.js'
import type { SlotStates } from '../../../contracts/model/slot-states.js'
import * as tokens from '../../../tokens.js'
import type { EngineCosts } from '../../costs/engine-costs.js'
import type { EngineOptions } from '../../engine-options.js'
import type { Slot } from '../../parts.js'
import type { Sequence } from '../../requests/sequence.js'
import { BlockChain } from '../block-chain.js'
import { minimumWait } from '../prefix-index.js'
import { PauseBudget } from './pause-budget.js'
import { type FoundState, lengthOf, type SavedState } from './saved-state.js'
import { commonLength } from './state-index.js'
import { StateStore } from './state-store.js'

/** A conversation is worth saving with at least this chance that it goes on. */
const leastChance = 0.1

/**
 * Keeps in RAM what slots held when they are given to other requests, and finds it again: the tier
 * between the slots and computing. Off without `cacheRamBytes`, or where the backend saves no states.
 */
@injectable()
export class StateCache {
  readonly pauses: PauseBudget
  readonly #states: SlotStates | undefined
  readonly #store: StateStore
  /** What was saved before it was lost, once: where not all fits, one would drop the other for ever. */
  readonly #savedAhead = new WeakMap<BlockChain, number>()
  readonly #counts = {
    hits: 0,
    misses: 0,
    hitTokens: 0,
    saved: 0,
    skipped: 0,
    failed: 0,
    saveMs: 0,
    loadMs: 0,
  }

  constructor(
    @inject(tokens.BACKEND) { states }: Backend,
    @inject(tokens.CLOCK) private readonly clock: Clock,
    @inject(tokens.ENGINE_COSTS) private readonly costs: EngineCosts,
    @inject(tokens.ENGINE_OPTIONS) { cacheRamBytes }: EngineOptions,
  ) {
    this.#states = cacheRamBytes > 0 ? states : undefined
    this.#store = new StateStore(cacheRamBytes)
    this.pauses = new PauseBudget()
  }

  get isOn(): boolean {
    return this.#states !== undefined
  }

  /** Changes with what can be found. */
  get version(): number {
    return this.#store.version
  }

  /** The state with which the most of the sequence need not be computed. */
  find(sequence: Sequence): FoundState | undefined {
    if (this.#states === undefined || !sequence.request.cache) return undefined
    const { index } = this.#store
    const limit = sequence.tokens.length - 1
    if (!this.#states.cutsAnywhere) {
      const state = index.exact(sequence, false, limit)
      return state && { state, shared: lengthOf(state) }
    }
    let best: FoundState | undefined
    for (const { state, shared } of index.longest(sequence)) {
      const isShorter = best !== undefined && state.data.length < best.state.data.length
      if (best === undefined || shared > best.shared || (shared === best.shared && isShorter)) {
        best = { state, shared }
      }
    }
    return best
  }

  /** Milliseconds that restoring takes. */
  loadMs({ state, checkpoint }: FoundState): number {
    const bytes = state.data.length + (checkpoint?.data.length ?? 0)
    return this.costs.states.loadMs(bytes)
  }

  /**
   * Milliseconds that it takes, in the mean, to have back what an idle slot holds beyond its first `kept`
   * tokens, when it is wanted with this chance.
   */
  lossMs(slot: Slot, kept: number, chance: number): number {
    const computeMs = chance * this.costs.steps.tokensMs(Math.max(0, slot.length - kept))
    if (this.#states === undefined || slot.length - kept < minimumWait) return computeMs
    const bytes = this.costs.states.bytesOf(slot.length)
    const saveMs = this.#isSaved(slot) ? 0 : this.costs.states.saveMs(bytes)
    return Math.min(computeMs, saveMs + chance * this.costs.states.loadMs(bytes))
  }

  /** An idle slot is about to lose what is behind its first `kept` tokens. */
  async beforeLoss(slot: Slot, kept: number, othersDecode: boolean): Promise<void> {
    if (this.#states === undefined || slot.length - kept < minimumWait) return
    if (!this.#isWorthSaving(slot)) return
    const ms = this.costs.states.saveMs(this.costs.states.bytesOf(slot.length))
    if (othersDecode && !this.pauses.canSave(ms)) {
      this.#counts.skipped++
      return
    }
    await this.#save(slot)
  }

  /** Saves one idle slot that would be lost otherwise; returns whether there was one. */
  async saveOne(slots: readonly Slot[]): Promise<boolean> {
    if (this.#states === undefined || this.#counts.saved + this.#counts.skipped === 0) return false
    const next = slots.find((slot) => {
      const { chain, owner, length } = slot
      const isNew = chain !== undefined && this.#savedAhead.get(chain) !== length
      return owner === undefined && isNew && this.#isWorthSaving(slot)
    })
    if (next?.chain === undefined) return false
    this.#savedAhead.set(next.chain, next.length)
    return await this.#save(next)
  }

  /** Restores what was found into a slot; returns how many tokens that has then, 0 for none. */
  async load(slot: Slot, sequence: Sequence, { state, shared }: FoundState): Promise<number> {
    const states = this.#states
    const length = lengthOf(state)
    // Hashes have found it; every token is compared before it is used.
    if (states === undefined || commonLength(state.chain, sequence.chain, shared) < shared) return 0
    state.holds++
    const began = this.clock.now()
    const isThere = await states.restore(slot.id, state.data, { tokens: length }).catch(() => false)
    state.holds--
    const ms = this.clock.now() - began
    this.pauses.onPause(ms)
    this.#counts.loadMs += ms
    if (!isThere) {
      this.#counts.failed++
      this.#store.remove(state)
      return 0
    }
    this.costs.states.onLoaded(state.data.length, ms)
    this.#store.touch(state)
    this.#counts.hits++
    this.#counts.hitTokens += shared
    return length
  }

  /** A request was admitted whose tokens were found nowhere. */
  onMiss(): void {
    if (this.isOn) this.#counts.misses++
  }

  /** What it holds and did; undefined while it is off. */
  statistics(): CacheStatistics | undefined {
    if (!this.isOn) return undefined
    const { size: states, bytes, limit: limitBytes, evictions } = this.#store
    return { ram: { states, bytes, limitBytes, evictions, ...this.#counts } }
  }

  #isSaved({ chain, length }: Slot): boolean {
    if (chain === undefined) return false
    const { index } = this.#store
    const found =
      this.#states?.cutsAnywhere === true
        ? index.covering(chain, length)
        : index.find(chain, length, false)
    if (found !== undefined) this.#store.touch(found)
    return found !== undefined
  }

  /** Whether having it back is likely to save more time than saving it takes. */
  #isWorthSaving(slot: Slot): boolean {
    const { steps, states, reuseShare } = this.costs
    if (slot.chain === undefined || slot.length < minimumWait || this.#isSaved(slot)) return false
    const bytes = states.bytesOf(slot.length)
    const gainMs = steps.tokensMs(slot.length) - states.loadMs(bytes)
    return Math.max(leastChance, reuseShare) * gainMs > states.saveMs(bytes)
  }

  async #save({ id, chain, length }: Slot): Promise<boolean> {
    const states = this.#states
    if (states === undefined || chain === undefined) return false
    const began = this.clock.now()
    const allocate = (bytes: number) => this.#store.room(bytes)
    const data = await states.save(id, { allocate }).catch(() => undefined)
    const ms = this.clock.now() - began
    this.pauses.onPause(ms)
    this.#counts.saveMs += ms
    if (data === undefined) {
      this.#counts.failed++
      return false
    }
    this.costs.states.onSaved(length, data.length, ms)
    const own = new BlockChain(chain.tokens.slice(0, length), chain.scope)
    const state: SavedState = { chain: own, partial: false, data, holds: 0 }
    this.#store.add(state, states.cutsAnywhere)
    this.#counts.saved++
    return true
  }
}
