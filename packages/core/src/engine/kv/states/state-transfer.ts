import type { SlotId } from '../../../contracts/model/backend.js'
import type { Clock } from '../../../contracts/services.js'
import type { SlotStates } from '../../../contracts/model/states.js'
import type { EngineCosts } from '../../costs/engine-costs.js'
import type { Slot } from '../../engine-parts.js'
import { BlockChain } from '../block-chain.js'
import {
  type FiledState,
  type FoundState,
  type SavedState,
  filesOf,
  unused,
  lengthOf,
} from './state-index.js'
import type { StateDisk } from './state-disk.js'
import type { StateStore } from './state-store.js'
import type { Sequence } from '../../requests/sequence.js'

/**
 * Moves states between slots, RAM and files, counts the moves and learns their costs. Files are read beside the steps,
 * one after the other; memory is taken when a read begins, and a buffer for the next file is made ready meanwhile.
 */
export class StateTransfer {
  /** Bytes of the latest checkpoint. */
  checkpointBytes = 0
  /** The longest time in milliseconds that decoding requests waited while a slot was prepared for another request. */
  longestPauseMs = 0
  /** Counts of the states in RAM. */
  readonly counts = noCounts()
  /** Counts of the states in files. */
  readonly diskCounts = { ...noCounts(), evictions: 0 }
  /** The first file is being read, the others wait in this order. */
  readonly #reading = new Map<FiledState, Promise<SavedState | undefined>>()
  /** The sequences for which files were read. */
  readonly #readFor = new WeakSet<Sequence>()
  #last: Promise<unknown> = Promise.resolve()

  constructor(
    private readonly states: SlotStates | undefined,
    private readonly store: StateStore,
    private readonly disk: StateDisk | undefined,
    private readonly clock: Clock,
    private readonly costs: EngineCosts,
    /** Called when reading a file has ended, successfully or not. */
    private readonly onRead: () => void,
  ) {}

  /** Decoding requests waited for this long. */
  onPause(ms: number): void {
    this.longestPauseMs = Math.max(this.longestPauseMs, ms)
  }

  /** A request got this many tokens from a state. */
  onHit(tokens: number, from: 'ram' | 'disk'): void {
    const counts = from === 'disk' ? this.diskCounts : this.counts
    counts.hits++
    counts.hitTokens += tokens
  }

  /** Copies the first tokens of a slot to another one, by saving and restoring. */
  async copy(from: SlotId, to: SlotId, length: number): Promise<boolean> {
    const data = await this.states?.save(from).catch(() => undefined)
    if (data === undefined) return false
    return (await this.states?.restore(to, data, { tokens: length }).catch(() => false)) === true
  }

  /** Restores a state; false where that failed, and the slot is empty then. */
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
      // The first failure may be the slot's fault.
      if (++state.failures > 1) this.store.remove(state)
      return false
    }
    this.costs.states.onLoaded(data.byteLength, ms)
    this.store.touch(state)
    return true
  }

  /** Saves a slot, or a checkpoint of it; returns whether it did. */
  async save(
    { id, chain, length, program }: Pick<Slot, 'id' | 'chain' | 'length' | 'program'>,
    partial = false,
  ): Promise<boolean> {
    const { states } = this
    if (states === undefined || chain === undefined) return false
    const began = this.clock.now()
    const own = new BlockChain(chain.tokens.slice(0, length), chain.scope)
    const older = states.cutsAnywhere && !partial ? [...this.store.index.within(own)] : []
    let room: Uint8Array | undefined
    const allocate = (bytes: number) => (room = this.store.room(bytes, length, older))
    const data = await states.save(id, { allocate, partial }).catch(() => undefined)
    const ms = this.clock.now() - began
    this.costs.pauses.onPause(ms)
    this.counts.saveMs += ms
    if (data === undefined) {
      this.counts.failed++
      if (room !== undefined) this.store.giveUp(room, true)
      return false
    }
    const { byteLength: bytes } = data
    if (partial) this.checkpointBytes = bytes
    else this.costs.states.onSaved(length, bytes, ms)
    const state: SavedState = { chain: own, partial, bytes, data, program, ...unused() }
    this.store.add(state, older)
    if (!partial) this.store.expect(bytes)
    this.disk?.put(state, states.cutsAnywhere)
    this.counts.saved++
    return true
  }

  /** The number of files being read or waiting to be read. */
  get readCount(): number {
    return this.#reading.size
  }

  /** Whether what was found is in RAM, or cannot be read into it; otherwise it is being read. */
  isAtHand(sequence: Sequence, found: FoundState): boolean {
    if (filesOf(found).length === 0) return true
    if (filesOf(found).some((file) => this.#reading.has(file))) return false
    // If it was read and evicted again, it is read when the request is admitted.
    if (this.#readFor.has(sequence)) return true
    this.readAhead(sequence, found)
    return false
  }

  /** Whether what was found for a sequence is in a file, or was read from one for it. */
  isFromFile(found: FoundState, sequence: Sequence): boolean {
    return filesOf(found).length > 0 || this.#readFor.has(sequence)
  }

  /** Whether this many bytes fit into RAM beside all states there and those waiting to be read. */
  hasRoom(bytes: number): boolean {
    const waiting = [...this.#reading.keys()].slice(1)
    return this.store.hasRoom(waiting.reduce((sum, state) => sum + state.bytes, bytes))
  }

  /** Begins to read the files of what was found; once for each sequence. */
  readAhead(sequence: Sequence, found: FoundState): void {
    if (this.#readFor.has(sequence)) return
    this.#readFor.add(sequence)
    for (const file of filesOf(found)) void this.read(file).catch(() => undefined)
  }

  /**
   * Reads a state while the loop waits, and with it all decoding requests. Undefined where other reads are in
   * progress, as it would have to wait for them.
   */
  async readNow(file: FiledState): Promise<SavedState | undefined> {
    return this.#reading.size === 0 ? await this.read(file) : undefined
  }

  /** Reads a state from its file into RAM, or joins the read in progress. */
  async read(file: FiledState): Promise<SavedState | undefined> {
    const begun = this.#reading.get(file)
    if (begun !== undefined) return await begun
    const isFirst = this.#reading.size === 0
    const turn = isFirst ? this.#read(file) : this.#last.then(() => this.#read(file))
    const reading = turn.finally(() => {
      this.#reading.delete(file)
      this.onRead()
    })
    this.#last = reading.catch(() => undefined)
    this.#reading.set(file, reading)
    if (!isFirst) this.store.expect(file.bytes)
    return await reading
  }

  async #read(file: FiledState): Promise<SavedState | undefined> {
    const { disk, store } = this
    if (disk === undefined) return undefined
    const began = this.clock.now()
    let room: Uint8Array | undefined
    const allocate = (bytes: number) => (room = store.room(bytes, lengthOf(file)))
    const reading = disk.read(file, allocate).catch(() => undefined)
    const next = [...this.#reading.keys()].find((other) => other !== file)
    if (next !== undefined) store.expect(next.bytes)
    const data = await reading
    const ms = this.clock.now() - began
    this.diskCounts.loadMs += ms
    if (data === undefined) {
      // A read that took too long may still write into it.
      if (room !== undefined) store.giveUp(room, false)
      return undefined
    }
    const { byteLength: bytes } = data
    this.costs.states.onRead(bytes, ms)
    const { chain, partial } = file
    const state: SavedState = { chain, partial, bytes, data, ...unused() }
    store.add(state)
    if (!partial) store.expect(bytes)
    return state
  }
}

function noCounts() {
  return { hits: 0, misses: 0, hitTokens: 0, saved: 0, skipped: 0, failed: 0, saveMs: 0, loadMs: 0 }
}
