import type { SlotId } from '../../../contracts/model/backend.js'
import type { Clock } from '../../../contracts/clock.js'
import type { SlotStates } from '../../../contracts/model/slot-states.js'
import type { EngineCosts } from '../../costs/engine-costs.js'
import type { Slot } from '../../engine-parts.js'
import { BlockChain } from '../block-chain.js'
import { type SavedState, unused } from './saved-state.js'
import type { StateDisk } from './state-disk.js'
import type { StateStore } from './state-store.js'

/** Moves states between slots, RAM and files; counts that, and learns what it costs. */
export class StateTransfer {
  /** Bytes of the last checkpoint. */
  checkpointBytes = 0
  /** Milliseconds of the longest time that requests which decode waited for a slot to be filled. */
  longestPauseMs = 0
  readonly #counts = noCounts()
  readonly #diskCounts = { ...noCounts(), evictions: 0 }

  constructor(
    private readonly states: SlotStates | undefined,
    private readonly store: StateStore,
    private readonly disk: StateDisk | undefined,
    private readonly clock: Clock,
    private readonly costs: EngineCosts,
  ) {}

  /** Requests that decode have waited for this long. */
  onPause(ms: number): void {
    this.longestPauseMs = Math.max(this.longestPauseMs, ms)
  }

  /** What was done with states in RAM. */
  get counts(): Readonly<StateCounts> {
    return this.#counts
  }

  /** What was done with states in files. */
  get diskCounts(): Readonly<StateCounts & { evictions: number }> {
    return this.#diskCounts
  }

  /** A request was given this many tokens. */
  onHit(tokens: number, from: 'ram' | 'disk'): void {
    const counts = from === 'disk' ? this.#diskCounts : this.#counts
    counts.hits++
    counts.hitTokens += tokens
  }

  /** A request's tokens were found nowhere. */
  onMiss(): void {
    this.#counts.misses++
  }

  /** Requests that decode could not wait for something to be saved. */
  onSkipped(): void {
    this.#counts.skipped++
  }

  /** Makes the first tokens of one slot those of another, by way of a state. */
  async copy(from: SlotId, to: SlotId, length: number): Promise<boolean> {
    const data = await this.states?.save(from).catch(() => undefined)
    if (data === undefined) return false
    const isThere = await this.states?.restore(to, data, { tokens: length }).catch(() => false)
    return isThere === true
  }

  /** Restores a state; false where it could not be, and the slot is empty. */
  async restore(slot: SlotId, state: SavedState): Promise<boolean> {
    const { chain, partial, data } = state
    const began = this.clock.now()
    state.holds++
    const options = { tokens: chain.tokens.length, partial }
    const isThere = await this.states?.restore(slot, data, options).catch(() => false)
    state.holds--
    const ms = this.clock.now() - began
    this.#counts.loadMs += ms
    if (isThere !== true) {
      this.#counts.failed++
      // Once may be the slot's fault.
      if (++state.failures > 1) this.store.remove(state)
      return false
    }
    this.costs.states.onLoaded(data.byteLength, ms)
    this.store.touch(state)
    return true
  }

  /** Saves a slot, or a checkpoint of it; returns whether it did. */
  async save(
    { id, chain, length }: Pick<Slot, 'id' | 'chain' | 'length'>,
    partial = false,
  ): Promise<boolean> {
    const { states } = this
    if (states === undefined || chain === undefined) return false
    const began = this.clock.now()
    const own = new BlockChain(chain.tokens.slice(0, length), chain.scope)
    const older = states.cutsAnywhere && !partial ? this.store.within(own) : []
    let room: Uint8Array | undefined
    const allocate = (bytes: number) => (room = this.store.room(bytes, length, older))
    const data = await states.save(id, { allocate, partial }).catch(() => undefined)
    const ms = this.clock.now() - began
    this.costs.pauses.onPause(ms)
    this.#counts.saveMs += ms
    if (data === undefined) {
      this.#counts.failed++
      if (room !== undefined) this.store.giveUp(room, true)
      return false
    }
    const { byteLength: bytes } = data
    if (partial) this.checkpointBytes = bytes
    else this.costs.states.onSaved(length, bytes, ms)
    const state: SavedState = { chain: own, partial, bytes, data, ...unused() }
    this.store.add(state, older)
    if (!partial) this.store.expect(bytes)
    this.disk?.put(state, states.cutsAnywhere)
    this.#counts.saved++
    return true
  }
}

type StateCounts = ReturnType<typeof noCounts>

function noCounts() {
  return {
    hits: 0,
    misses: 0,
    hitTokens: 0,
    saved: 0,
    skipped: 0,
    failed: 0,
    saveMs: 0,
    loadMs: 0,
  }
}
