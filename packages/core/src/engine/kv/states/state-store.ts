import type { Clock } from '../../../contracts/clock.js'
import { type KeptState, memoryOf, type SavedState } from './saved-state.js'
import { lengthOf, StateIndex } from './state-index.js'
import { sizeFor, StateMemory } from './state-memory.js'

/** Share of all bytes that the states which a tenant keeps for a time may take. */
const tenantShare = 1 / 4

/** Keeps states within a number of bytes; what was not used for the longest time is dropped first. */
export class StateStore {
  readonly index = new StateIndex<SavedState>()
  readonly memory = new StateMemory()
  /** In the order of their last use. */
  readonly #states = new Set<SavedState>()
  /** Changes with what can be found. */
  version = 0
  bytes = 0
  evictions = 0

  /** @param limit bytes */
  constructor(
    readonly limit: number,
    private readonly clock: Pick<Clock, 'now'>,
  ) {}

  get size(): number {
    return this.#states.size
  }

  all(): Iterable<SavedState> {
    return this.#states
  }

  /**
   * Room for a state of this many bytes; drops others for it, and returns undefined where that would
   * not be enough.
   */
  room(bytes: number): Uint8Array | undefined {
    const size = sizeFor(bytes)
    if (size > this.limit) return undefined
    for (const state of this.#states) {
      if (this.bytes + size <= this.limit) break
      if (state.holds > 0 || this.#isKept(state)) continue
      this.evictions++
      this.remove(state)
    }
    if (this.bytes + size > this.limit) return undefined
    this.memory.shrink(this.limit - this.bytes)
    return this.memory.take(bytes)
  }

  /** Adds a state, in place of those that it goes on from where it can be cut to each of them. */
  add(state: SavedState, replaces: boolean): void {
    if (replaces && !state.partial) {
      for (const other of this.index.within(state.chain)) {
        if (other.pinned !== true) this.remove(other)
      }
    }
    const same = this.index.find(state.chain, lengthOf(state), state.partial)
    if (same?.pinned === true) state.pinned = true
    if (same?.kept !== undefined) state.kept = same.kept
    if (same !== undefined) this.remove(same)
    this.#states.add(state)
    this.index.add(state)
    this.bytes += memoryOf(state)
    this.version++
  }

  /** It is wanted: the others are dropped first. */
  touch(state: SavedState): void {
    if (this.#states.delete(state)) this.#states.add(state)
  }

  /** Keeps a state for a time: within the tenant's share, before its others. */
  keep(state: SavedState, kept: KeptState): void {
    this.touch(state)
    state.kept = kept
    let bytes = 0
    for (const other of [...this.#states].reverse()) {
      if (other.kept?.tenant !== kept.tenant) continue
      bytes += memoryOf(other)
      if (bytes > this.limit * tenantShare) delete other.kept
    }
  }

  #isKept({ pinned, kept }: SavedState): boolean {
    return pinned === true || (kept !== undefined && kept.until > this.clock.now())
  }

  remove(state: SavedState): void {
    if (!this.#states.delete(state)) return
    this.index.remove(state)
    this.bytes -= memoryOf(state)
    this.version++
    if (state.holds === 0) this.memory.give(state.data)
  }
}
