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

/** Share of all bytes that the states which a tenant keeps for a time may take. */
const tenantShare = 1 / 4

/** A state that was wanted more often than this is not worth more. */
const mostUses = 8

/**
 * Keeps states within a number of bytes. Dropped first is what saves the least time for its memory: how
 * often it was wanted × the milliseconds that it saves ÷ its bytes, and on top of that the worth of what
 * was dropped last when it was used, so that what nobody wants any more ages (GreedyDual-Size-Frequency:
 * Cherkasova, "Improving WWW Proxies Performance with Greedy-Dual-Size-Frequency Caching Policy", 1998);
 * all that by the chance that its program returns.
 */
export class StateStore {
  readonly index = new StateIndex<SavedState>()
  readonly memory: StateMemory
  readonly #states = new Set<SavedState>()
  /** In the order of their last use. */
  readonly states: ReadonlySet<SavedState> = this.#states
  /** The worth of what was dropped last. */
  #floor = 0
  /** Memory that `room` gave for states which are not there yet. */
  readonly #promised = new Set<ArrayBufferLike>()
  /** What was removed while somebody reads it: it takes memory until then. */
  readonly #leaving = new Set<SavedState>()
  /** Changes with what can be found. */
  version = 0
  #bytes = 0
  evictions = 0

  /**
   * @param limit bytes
   * @param gainMs milliseconds that a state saves when it is wanted, beyond what the others save
   * @param source gives memory; default: the runtime
   */
  constructor(
    readonly limit: number,
    private readonly clock: Pick<Clock, 'now'>,
    private readonly gainMs: (state: SavedState) => number,
    source?: StateMemorySource,
  ) {
    this.memory = new StateMemory(source)
  }

  /** Of the states, of the memory for those to come, and of what is still read. */
  get bytes(): number {
    this.#giveBack()
    return this.#bytes
  }

  /**
   * Room for a state of this many bytes, until it is added or given up; drops others for it. Undefined, and nothing
   * is dropped, where that would not be enough.
   *
   * @param tokens - how many it has
   * @param older - states that it will replace, dropped first where their memory is of use
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
   * No state comes into this room.
   *
   * @param isFree - whether nobody writes to it any more
   */
  giveUp(room: Uint8Array, isFree: boolean): void {
    if (this.#take(room) && isFree) this.memory.give(room)
  }

  /**
   * Drops states for one of this many bytes, and has memory made ready for it. Returns whether it can be written now:
   * with such memory, or without where it has no room or none can be made.
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

  /** Whether one fits beside the others. */
  hasRoom(bytes: number): boolean {
    return this.bytes + sizeFor(bytes) <= this.limit
  }

  /** Has memory for one more state of this many bytes made ready, where it fits beside the others. */
  expect(bytes: number): void {
    this.#giveBack()
    if (this.hasRoom(bytes + this.memory.freeBytes)) this.memory.prepare(bytes)
  }

  /** Adds a state, in place of older ones. */
  add(state: SavedState, older: readonly SavedState[] = []): void {
    this.#take(state.data)
    for (const one of older) {
      state.uses = Math.max(state.uses, one.uses + 1)
      // What is kept is a part of the longer one, which is kept in its place.
      keepLonger(state, one.kept)
      if (one.pinned !== true) this.remove(one)
    }
    const same = this.index.find(state.chain, lengthOf(state), state.partial)
    if (same?.pinned === true) state.pinned = true
    keepLonger(state, same?.kept)
    if (same !== undefined) {
      state.uses = Math.max(state.uses, same.uses)
      this.remove(same)
    }
    state.worth = this.#worthOf(state)
    this.#states.add(state)
    this.index.add(state)
    this.#bytes += memoryOf(state)
    this.version++
    if (state.kept !== undefined) this.#limitKept(state.kept)
  }

  /** It is wanted again. */
  touch(state: SavedState): void {
    state.uses++
    this.renew(state)
  }

  /** A slot holds it, too: it is not older than that. */
  renew(state: SavedState): void {
    if (!this.#states.delete(state)) return
    this.#states.add(state)
    state.worth = this.#worthOf(state)
  }

  /** Keeps a state for a time: within the tenant's share, before its others. */
  keep(state: SavedState, kept: KeptState): void {
    this.touch(state)
    keepLonger(state, kept)
    this.#limitKept(kept)
  }

  #limitKept({ tenant }: KeptState): void {
    let bytes = 0
    for (const other of [...this.#states].reverse()) {
      if (other.kept?.tenant !== tenant || other.kept.until <= this.clock.now()) continue
      bytes += memoryOf(other)
      if (bytes > this.limit * tenantShare) delete other.kept
    }
  }

  /** Whether a piece of memory fits once all that can be dropped is. */
  #canMakeRoom(size: number): boolean {
    let free = this.limit - this.bytes
    for (const state of this.#states) {
      if (free >= size) break
      if (this.#canBeDropped(state)) free += memoryOf(state)
    }
    return free >= size
  }

  /** Drops states until a piece of memory fits beside the others, for which there can be room. */
  #dropFor(size: number): void {
    while (this.bytes + size > this.limit) {
      const [state, worth] = this.#leastWorth()!
      this.#floor = Math.max(this.#floor, worth)
      this.evictions++
      this.remove(state)
    }
  }

  /** A promise is kept, or void; false where there was none. */
  #take({ buffer }: Uint8Array): boolean {
    if (!this.#promised.delete(buffer)) return false
    this.#bytes -= buffer.byteLength
    return true
  }

  #canBeDropped({ holds, pinned, kept }: SavedState): boolean {
    return holds === 0 && pinned !== true && !(kept !== undefined && kept.until > this.clock.now())
  }

  remove(state: SavedState): void {
    if (!this.#states.delete(state)) return
    this.index.remove(state)
    this.version++
    this.#leaving.add(state)
    this.#giveBack()
  }

  /** Gives back the memory of what was removed and is read no more. */
  #giveBack(): void {
    for (const state of this.#leaving) {
      if (state.holds > 0) continue
      this.#leaving.delete(state)
      this.#bytes -= memoryOf(state)
      this.memory.give(state.data)
    }
  }

  /** Of equals the one that was not used for the longest time. */
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
