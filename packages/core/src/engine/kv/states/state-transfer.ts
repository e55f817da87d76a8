import type { SlotId } from '../../../contracts/model/backend.js'
import type { Clock } from '../../../contracts/clock.js'
import type { SlotStates } from '../../../contracts/model/slot-states.js'
import type { EngineCosts } from '../../costs/engine-costs.js'
import type { Slot } from '../../engine-parts.js'
import type { Sequence } from '../../requests/sequence.js'
import { BlockChain } from '../block-chain.js'
import type { FiledState, FoundState, SavedState } from './saved-state.js'
import type { StateDisk } from './state-disk.js'
import type { StateStore } from './state-store.js'

/** Moves states between slots, RAM and files; counts that, and learns what it costs. */
export class StateTransfer {
  /** Bytes of the last checkpoint. */
  checkpointBytes = 0
  /** Milliseconds of the longest time that requests which decode waited for a slot to be filled. */
  longestPauseMs = 0
  /** Files that are being read, and for whom some were. */
  readonly #reading = new Map<FiledState, Promise<SavedState | undefined>>()
  readonly #readFor = new WeakSet<Sequence>()
  readonly counts = noCounts()
  readonly diskCounts = { ...noCounts(), evictions: 0 }

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

  /** Makes the first tokens of one slot those of another, by way of a state. */
  async copy(from: SlotId, to: SlotId, length: number): Promise<boolean> {
    const data = await this.states?.save(from).catch(() => undefined)
    if (data === undefined) return false
    const isThere = await this.states?.restore(to, data, { tokens: length }).catch(() => false)
    return isThere === true
  }

  /** Whether what was found is in RAM, or cannot be; otherwise it is on its way there. */
  isAtHand(sequence: Sequence, found: FoundState | undefined): boolean {
    if (found === undefined || !('file' in found.state)) return true
    if (this.isBeingRead(found)) return false
    // What was read for it and is gone again is read when it is admitted.
    if (this.#readFor.has(sequence)) return true
    this.readAhead(sequence, found.state)
    return false
  }

  /** Whether what was found for a sequence is in a file, or was read for it. */
  isFromFile(state: FoundState['state'], sequence: Sequence): boolean {
    return 'file' in state || this.#readFor.has(sequence)
  }

  /** Whether what was found is on its way into RAM. */
  isBeingRead({ state }: FoundState): boolean {
    return 'file' in state && this.#reading.has(state)
  }

  /** How many files are being read. */
  get reads(): number {
    return this.#reading.size
  }

  /** Begins to read a file, beside the steps. */
  readAhead(sequence: Sequence, found: FiledState): void {
    if (this.#readFor.has(sequence)) return
    this.#readFor.add(sequence)
    void this.read(found).catch(() => undefined)
  }

  /** Reads a state from its file into RAM, or waits for who does. */
  async read(found: FiledState): Promise<SavedState | undefined> {
    const begun = this.#reading.get(found)
    if (begun !== undefined) return await begun
    const reading = this.#read(found).finally(() => this.#reading.delete(found))
    this.#reading.set(found, reading)
    return await reading
  }

  async #read(found: FiledState): Promise<SavedState | undefined> {
    const disk = this.disk
    if (disk === undefined) return undefined
    // Of one that waits for others, nothing can be learned.
    const isAlone = this.#reading.size === 0
    const began = this.clock.now()
    const data = await disk.read(found, (bytes) => this.store.room(bytes))
    const ms = this.clock.now() - began
    this.diskCounts.loadMs += ms
    if (data === undefined) return undefined
    if (isAlone) this.costs.states.onRead(data.byteLength, ms)
    const { chain, partial } = found
    const state: SavedState = {
      chain,
      partial,
      bytes: data.byteLength,
      data,
      ...unused(),
    }
    this.store.add(state)
    this.store.expect(data.byteLength)
    return state
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
    this.counts.loadMs += ms
    if (isThere !== true) {
      this.counts.failed++
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
    const allocate = (bytes: number) => this.store.room(bytes, older)
    const data = await states.save(id, { allocate, partial }).catch(() => undefined)
    const ms = this.clock.now() - began
    this.costs.pauses.onPause(ms)
    this.counts.saveMs += ms
    if (data === undefined) {
      this.counts.failed++
      return false
    }
    const { byteLength: bytes } = data
    if (partial) this.checkpointBytes = bytes
    else this.costs.states.onSaved(length, bytes, ms)
    const state: SavedState = { chain: own, partial, bytes, data, ...unused() }
    this.store.add(state, older)
    if (!partial) this.store.expect(bytes)
    this.disk?.put(state, states.cutsAnywhere)
    this.counts.saved++
    return true
  }
}

const unused = () => ({ holds: 0, failures: 0, uses: 1, worth: 0 })

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
