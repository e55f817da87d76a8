import type { Clock } from '../../../contracts/clock.js'
import type { EngineCosts } from '../../costs/engine-costs.js'
import type { Sequence } from '../../requests/sequence.js'
import {
  filesOf,
  type FiledState,
  type FoundState,
  type SavedState,
  unused,
} from './saved-state.js'
import type { StateDisk } from './state-disk.js'
import { lengthOf } from './state-index.js'
import type { StateStore } from './state-store.js'

/**
 * Reads states from files into RAM beside the steps, one after the other: memory is taken when the turn of
 * a file has come, and that for the next one is made ready meanwhile.
 */
export class StateReader {
  /** Those that are read or wait for it, in their order; the first one is being read. */
  readonly #reading = new Map<FiledState, Promise<SavedState | undefined>>()
  /** For whom something was read. */
  readonly #readFor = new WeakSet<Sequence>()
  #last: Promise<unknown> = Promise.resolve()
  /** Milliseconds of all reads. */
  ms = 0

  /** @param onRead - called when a file was read, or could not be */
  constructor(
    private readonly store: StateStore,
    private readonly disk: StateDisk | undefined,
    private readonly clock: Clock,
    private readonly costs: EngineCosts,
    private readonly onRead: () => void,
  ) {}

  /** How many files are read or wait for it. */
  get count(): number {
    return this.#reading.size
  }

  /** Whether what was found is in RAM, or cannot be; otherwise it is on its way there. */
  isAtHand(sequence: Sequence, found: FoundState): boolean {
    if (filesOf(found).length === 0) return true
    if (this.isBeingRead(found)) return false
    // What was read for it and is gone again is read when it is admitted.
    if (this.#readFor.has(sequence)) return true
    this.readAhead(sequence, found)
    return false
  }

  /** Whether what was found for a sequence is in a file, or was read for it. */
  isFromFile(found: FoundState, sequence: Sequence): boolean {
    return filesOf(found).length > 0 || this.#readFor.has(sequence)
  }

  /** Whether what was found is on its way into RAM. */
  isBeingRead(found: FoundState): boolean {
    return filesOf(found).some((file) => this.#reading.has(file))
  }

  /** Whether this many bytes fit beside all that is in RAM, and on its way there. */
  hasRoom(bytes: number): boolean {
    const waiting = [...this.#reading.keys()].slice(1)
    return this.store.hasRoom(waiting.reduce((sum, state) => sum + state.bytes, bytes))
  }

  /** Begins to read what was found, unless that was done for the sequence before. */
  readAhead(sequence: Sequence, found: FoundState): void {
    if (this.#readFor.has(sequence)) return
    this.#readFor.add(sequence)
    for (const file of filesOf(found)) void this.read(file).catch(() => undefined)
  }

  /**
   * Reads a state for which the loop waits, and so all that decode: not behind others. Undefined where
   * others are on their way, too.
   */
  async readNow(file: FiledState): Promise<SavedState | undefined> {
    return this.#reading.size === 0 ? await this.read(file) : undefined
  }

  /** Reads a state from its file into RAM, or waits for who does. */
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
    this.ms += ms
    if (data === undefined) {
      // A read that took too long may still write to it.
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
