import type { Clock } from '../../../contracts/services.js'
import type { StateMemorySource } from '../../../contracts/model/states.js'
import {
  type KeptState,
  type SavedState,
  memoryOf,
  tokenBytes,
  lengthOf,
  StateIndex,
} from './state-index.js'
import { StateMemory, sizeFor } from './state-memory.js'

/** The share of all bytes that the temporarily kept states of one tenant may take. */
const tenantShare = 1 / 4

/** Uses beyond this number do not raise the worth of a state. */
const mostUses = 8

/**
 * Keeps states within a limit of bytes. The state of the least worth is evicted first. Worth is the number of uses ×
 * the milliseconds that it saves ÷ its bytes, plus the worth of the latest evicted state at its last use, so that unused
 * states age (GreedyDual-Size-Frequency: Cherkasova, "Improving WWW Proxies Performance with
 * Greedy-Dual-Size-Frequency Caching Policy", 1998); all times the chance that its program returns.
 */
export class StateStore {
  readonly index = new StateIndex<SavedState>()
  readonly memory: StateMemory
  readonly #states = new Set<SavedState>()
  /** In the order of their last use. */
  readonly states: ReadonlySet<SavedState> = this.#states
  /** The worth of the state that was evicted last. */
  #floor = 0
  /** Buffers that `room` gave for states which are still being written. */
  readonly #promised = new Set<ArrayBufferLike>()
  /** Removed states that are still being read: they take memory until that ends. */
  readonly #leaving = new Set<SavedState>()
  #bytes = 0
  evictions = 0

  /**
   * @param limit bytes
   * @param gainMs milliseconds that a state saves when it is used, beyond what other states save
   * @param source allocates memory; default: the runtime
   */
  constructor(
    readonly limit: number,
    private readonly clock: Pick<Clock, 'now'>,
    private readonly gainMs: (state: SavedState) => number,
    source?: StateMemorySource,
  ) {
    this.memory = new StateMemory(source)
  }

  /** Bytes of all states, of the buffers for states being written, and of removed states still being read. */
  get bytes(): number {
    this.#giveBack()
    return this.#bytes
  }

  /**
   * A buffer for a state of this many bytes, to be followed by `add` or `giveUp`; evicts other states for it. Undefined
   * where evicting would not make enough room; then nothing is evicted.
   *
   * @param tokens - the number of its tokens
   * @param older - states that it will replace; removed first where that helps
   */
  room(bytes: number, tokens: number, older: readonly SavedState[] = []): Uint8Array | undefined {
    const size = sizeFor(bytes)
    const all = size + tokenBytes * tokens
    if (!this.#canMakeRoom(all)) return undefined
    for (const state of older) {
      const isUseful = state.data.buffer.byteLength === size || this.bytes + all > this.limit
      if (isUseful && this.#canBeDropped(state)) this.remove(state)
    }
    this.#dropFor(all)
    const taken = this.memory.take(bytes)
    if (taken === undefined) return undefined
    this.#promised.add(taken.buffer)
    this.#bytes += taken.buffer.byteLength
    this.memory.shrink(this.limit - this.bytes)
    return taken
  }

  /**
   * The buffer from `room` will not be used.
   *
   * @param isFree - whether nobody writes to it any more, so that it can be reused
   */
  giveUp(room: Uint8Array, isFree: boolean): void {
    if (this.#take(room) && isFree) this.memory.give(room)
  }

  /**
   * Evicts states for one of this many bytes, and has a buffer made ready for it. Returns false while that is going on;
   * true when the buffer is ready, or there is no room, or none can be allocated.
   */
  prepare(bytes: number): boolean {
    const size = sizeFor(bytes)
    if (!this.#canMakeRoom(size)) return true
    this.#dropFor(size)
    return this.memory.prepare(bytes)
  }

  /** Whether a state of this many bytes can be kept at all. */
  holds(bytes: number): boolean {
    return sizeFor(bytes) <= this.limit
  }

  /** Whether a state of this many bytes fits beside the others. */
  hasRoom(bytes: number): boolean {
    return this.bytes + sizeFor(bytes) <= this.limit
  }

  /** Has a buffer for one more state of this many bytes made ready, if it fits beside the others. */
  expect(bytes: number): void {
    this.#giveBack()
    if (this.hasRoom(bytes + this.memory.freeBytes)) this.memory.prepare(bytes)
  }

  /** Adds a state, which replaces older ones. */
  add(state: SavedState, older: readonly SavedState[] = []): void {
    this.#take(state.data)
    for (const one of older) {
      state.uses = Math.max(state.uses, one.uses + 1)
      if (one.kept?.until === Infinity) continue
      // An older state that is kept for a time is a part of the new, longer one: that is kept in its place.
      keepLonger(state, one.kept)
      this.remove(one)
    }
    const same = this.index.find(state.chain, lengthOf(state), state.partial)
    keepLonger(state, same?.kept)
    if (same !== undefined) {
      state.uses = Math.max(state.uses, same.uses)
      this.remove(same)
    }
    state.worth = this.#worthOf(state)
    this.#states.add(state)
    this.index.add(state)
    this.#bytes += memoryOf(state)
    if (state.kept !== undefined) this.#limitKept(state.kept)
  }

  /** Counts a use of the state. */
  touch(state: SavedState): void {
    state.uses++
    this.renew(state)
  }

  /** Marks the state as recently used, since a slot holds the same tokens. */
  renew(state: SavedState): void {
    if (!this.#states.delete(state)) return
    this.#states.add(state)
    state.worth = this.#worthOf(state)
  }

  /** Keeps a state; the tenant's oldest states that are kept for a time lose that beyond its share. */
  keep(state: SavedState, kept: KeptState): void {
    this.touch(state)
    keepLonger(state, kept)
    this.#limitKept(kept)
  }

  #limitKept({ tenant }: KeptState): void {
    let bytes = 0
    for (const other of [...this.#states].reverse()) {
      if (other.kept?.tenant !== tenant || other.kept.until === Infinity) continue
      if (other.kept.until <= this.clock.now()) continue
      bytes += memoryOf(other)
      if (bytes > this.limit * tenantShare) delete other.kept
    }
  }

  /** Whether a buffer of this size fits after evicting all that can be evicted. */
  #canMakeRoom(size: number): boolean {
    let free = this.limit - this.bytes
    for (const state of this.#states) {
      if (free >= size) break
      if (this.#canBeDropped(state)) free += memoryOf(state)
    }
    return free >= size
  }

  /** Evicts states until a buffer of this size fits, for which there can be room. */
  #dropFor(size: number): void {
    while (this.bytes + size > this.limit) {
      const [state, worth] = this.#leastWorth()!
      this.#floor = Math.max(this.#floor, worth)
      this.evictions++
      this.remove(state)
    }
  }

  /** Ends the reservation of a buffer; false where there was none. */
  #take({ buffer }: Uint8Array): boolean {
    if (!this.#promised.delete(buffer)) return false
    this.#bytes -= buffer.byteLength
    return true
  }

  #canBeDropped({ holds, kept }: SavedState): boolean {
    return holds === 0 && !(kept !== undefined && kept.until > this.clock.now())
  }

  remove(state: SavedState): void {
    if (!this.#states.delete(state)) return
    this.index.remove(state)
    this.#leaving.add(state)
    this.#giveBack()
  }

  /** Frees the buffers of removed states that nobody reads any more. */
  #giveBack(): void {
    for (const state of this.#leaving) {
      if (state.holds > 0) continue
      this.#leaving.delete(state)
      this.#bytes -= memoryOf(state)
      this.memory.give(state.data)
    }
  }

  /** The evictable state of the least worth; of equal ones the least recently used. */
  #leastWorth(): readonly [SavedState, number] | undefined {
    let least: readonly [SavedState, number] | undefined
    const now = this.clock.now()
    for (const state of this.#states) {
      if (!this.#canBeDropped(state)) continue
      const worth = state.worth * (state.program?.returnChance(now) ?? 1)
      if (least === undefined || worth < least[1]) least = [state, worth]
    }
    return least
  }

  #worthOf(state: SavedState): number {
    const uses = Math.min(state.uses, mostUses)
    return this.#floor + (uses * Math.max(0, this.gainMs(state))) / Math.max(1, memoryOf(state))
  }
}

function keepLonger(state: SavedState, kept: KeptState | undefined): void {
  if (kept !== undefined && kept.until > (state.kept?.until ?? 0)) state.kept = kept
}
