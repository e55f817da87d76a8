import { inject, injectable } from 'tsyringe'
import type { Backend } from '../../../contracts/model/backend.js'
import type { StateFiles } from '../../../contracts/engine/state-files.js'
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
import type { FiledState, FoundState, SavedState } from './saved-state.js'
import { StateDisk } from './state-disk.js'
import { commonLength, lengthOf, type StateIndex } from './state-index.js'
import { StateStore } from './state-store.js'

/** A conversation is worth saving with at least this chance that it goes on. */
const leastChance = 0.1

/**
 * Keeps in RAM what slots held when they are given to other requests, and finds it again: the tier
 * between the slots and computing. Off without `cacheRamBytes`, or where the backend saves no states.
 */
@injectable()
export class StateCache {
  readonly #states: SlotStates | undefined
  readonly #store: StateStore
  readonly #disk: StateDisk | undefined
  /** What was saved before it was lost, once: where not all fits, one would drop the other for ever. */
  readonly #savedAhead = new WeakMap<BlockChain, number>()
  readonly #counts = noCounts()
  readonly #diskCounts = { ...noCounts(), evictions: 0 }

  constructor(
    @inject(tokens.BACKEND) { states }: Backend,
    @inject(tokens.CLOCK) private readonly clock: Clock,
    @inject(tokens.ENGINE_COSTS) private readonly costs: EngineCosts,
    @inject(tokens.ENGINE_OPTIONS) { cacheRamBytes }: EngineOptions,
    @inject(tokens.STATE_FILES) { files }: { readonly files?: StateFiles },
  ) {
    this.#states = cacheRamBytes > 0 ? states : undefined
    this.#store = new StateStore(cacheRamBytes)
    if (files !== undefined && this.#states !== undefined) {
      this.#disk = new StateDisk(files, this.#states)
    }
  }

  get isOn(): boolean {
    return this.#states !== undefined
  }

  /** Changes with what can be found. */
  get version(): number {
    return this.#store.version + (this.#disk?.version ?? 0)
  }

  /** The state with which the most of the sequence need not be computed. */
  find(sequence: Sequence): FoundState | undefined {
    if (this.#states === undefined || !sequence.request.cache) return undefined
    const inRam = this.#findIn(this.#store.index, sequence)
    const onDisk = this.#disk && this.#findIn(this.#disk.index, sequence)
    const more = (onDisk?.shared ?? 0) - (inRam?.shared ?? 0)
    return more >= minimumWait ? onDisk : inRam
  }

  /** Milliseconds that restoring takes. */
  loadMs({ state }: FoundState): number {
    const { states } = this.costs
    return states.loadMs(state.bytes) + ('file' in state ? states.readMs(state.bytes) : 0)
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
    if (othersDecode && !this.costs.pauses.canSave(ms)) {
      this.#counts.skipped++
      return
    }
    await this.#save(slot)
  }

  /** Saves one idle slot that would be lost otherwise; returns whether there was one. */
  async saveOne(slots: readonly Slot[]): Promise<boolean> {
    const isNeeded = this.#disk !== undefined || this.#counts.saved + this.#counts.skipped > 0
    if (this.#states === undefined || !isNeeded) return false
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
  async load(
    slot: Slot,
    sequence: Sequence,
    { state: found, shared }: FoundState,
  ): Promise<number> {
    // Hashes have found it; every token is compared before it is used.
    if (commonLength(found.chain, sequence.chain, shared) < shared) return 0
    const began = this.clock.now()
    const state = 'file' in found ? await this.#read(found) : found
    const isThere = state !== undefined && (await this.#restore(slot, state))
    this.costs.pauses.onPause(this.clock.now() - began)
    if (!isThere) return 0
    const counts = 'file' in found ? this.#diskCounts : this.#counts
    counts.hits++
    counts.hitTokens += shared
    return lengthOf(state)
  }

  /** Nothing drops a state while it is held. */
  hold({ state }: FoundState, isHeld: boolean): void {
    if ('holds' in state) state.holds += isHeld ? 1 : -1
  }

  /** Resolves when what earlier engines have left can be found. */
  async ready(): Promise<void> {
    await this.#disk?.ready
  }

  /** Saves the idle slots that others may want again and waits until all is in files. */
  async close(slots: readonly Slot[]): Promise<void> {
    if (this.#disk === undefined) return
    for (const slot of slots) {
      if (slot.owner === undefined && this.#isWorthSaving(slot)) await this.#save(slot)
    }
    await this.#disk.flush()
  }

  /** A request was admitted whose tokens were found nowhere. */
  onMiss(): void {
    if (this.isOn) this.#counts.misses++
  }

  /** What it holds and did; undefined while it is off. */
  statistics(): CacheStatistics | undefined {
    if (!this.isOn) return undefined
    const { size: states, bytes, limit: limitBytes, evictions } = this.#store
    const ram = { states, bytes, limitBytes, evictions, ...this.#counts }
    const disk = this.#disk
    if (disk === undefined) return { ram }
    const { saved, failed } = disk
    const own = { states: disk.size, bytes: disk.bytes, limitBytes: disk.limit, saved, failed }
    return { ram, disk: { ...this.#diskCounts, ...own } }
  }

  #findIn<State extends FoundState['state']>(
    index: StateIndex<State>,
    sequence: Sequence,
  ): FoundState | undefined {
    if (this.#states?.cutsAnywhere === true) return index.best(sequence)
    const state = index.exact(sequence, false, sequence.tokens.length - 1)
    return state && { state, shared: lengthOf(state) }
  }

  async #read(found: FiledState): Promise<SavedState | undefined> {
    const disk = this.#disk
    if (disk === undefined) return undefined
    const began = this.clock.now()
    const data = await disk.read(found, (bytes) => this.#store.room(bytes))
    const ms = this.clock.now() - began
    this.#diskCounts.loadMs += ms
    if (data === undefined) return undefined
    this.costs.states.onRead(data.byteLength, ms)
    const { chain, partial } = found
    const state: SavedState = { chain, partial, bytes: data.byteLength, data, holds: 0 }
    this.#store.add(state, false)
    return state
  }

  async #restore(slot: Slot, state: SavedState): Promise<boolean> {
    const { chain, partial, data } = state
    const began = this.clock.now()
    state.holds++
    const options = { tokens: chain.tokens.length, partial }
    const isThere = await this.#states?.restore(slot.id, data, options).catch(() => false)
    state.holds--
    const ms = this.clock.now() - began
    this.#counts.loadMs += ms
    if (isThere !== true) {
      this.#counts.failed++
      this.#store.remove(state)
      return false
    }
    this.costs.states.onLoaded(data.byteLength, ms)
    this.#store.touch(state)
    return true
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
    this.costs.pauses.onPause(ms)
    this.#counts.saveMs += ms
    if (data === undefined) {
      this.#counts.failed++
      return false
    }
    this.costs.states.onSaved(length, data.length, ms)
    const own = new BlockChain(chain.tokens.slice(0, length), chain.scope)
    const { byteLength: bytes } = data
    const state: SavedState = { chain: own, partial: false, bytes, data, holds: 0 }
    this.#store.add(state, states.cutsAnywhere)
    this.#disk?.put(state, states.cutsAnywhere)
    this.#counts.saved++
    return true
  }
}

const noCounts = () => ({
  hits: 0,
  misses: 0,
  hitTokens: 0,
  saved: 0,
  skipped: 0,
  failed: 0,
  saveMs: 0,
  loadMs: 0,
})
