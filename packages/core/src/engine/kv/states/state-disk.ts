import type { Clock } from '../../../contracts/services.js'
import type {
  SaveOptions,
  StateFile,
  StateFiles,
  SlotStates,
} from '../../../contracts/model/states.js'
import { BlockChain, commonLength } from '../block-chain.js'
import { type FiledState, type SavedState, memoryOf, lengthOf, StateIndex } from './state-index.js'

/** While requests are computed, a state waits for so many milliseconds until it is written … */
const patienceMs = 30_000
/** … unless what waits takes more than this share of the memory for states. */
const waitingShare = 1 / 4

/** Gives memory for so many bytes, if there is some. */
type Allocate = NonNullable<SaveOptions['allocate']>

/**
 * The tier of files: what is saved in RAM is written to them one after the other, and found by the next
 * engine too. Writing takes processors and memory that steps need, so it is put off while there is
 * something to compute: until then a longer state may have taken the place of what waits. What cannot be
 * read is as good as never written.
 */
export class StateDisk {
  readonly index = new StateIndex<FiledState>()
  /** The latest used last. */
  readonly all = new Set<FiledState>()
  /** Resolves when what earlier engines have left can be found. */
  readonly ready: Promise<void>
  #writing: Promise<void> = Promise.resolve()
  /** Those that are still to be written, in their order. */
  readonly #waiting = new Set<SavedState>()
  /** Whether there is nothing to compute. */
  #isResting = true
  /** Whether somebody waits until all is written. */
  #isClosing = false
  /** Has what waits look again whether its time has come. */
  #look = () => {}
  /** How often all was dropped: what was on its way then is not written. */
  #drops = 0
  /** Changes with what can be found. */
  version = 0
  bytes = 0
  saved = 0
  failed = 0

  constructor(
    readonly files: StateFiles,
    private readonly states: SlotStates,
    private readonly clock: Clock,
    private readonly ramBytes: number,
  ) {
    this.ready = this.#begin()
  }

  /** Writes a state when those before it are written. It must not change until then. */
  put(state: SavedState, replaces: boolean): void {
    if (this.files.whenClosing === true && !this.#isClosing) return
    if (this.index.find(state.chain, lengthOf(state), state.partial) !== undefined) return
    if (replaces && !state.partial) this.#skipOlder(state)
    state.holds++
    this.#waiting.add(state)
    const drops = this.#drops
    const latest = this.clock.now() + patienceMs
    this.#look()
    this.#writing = this.#writing.then(async () => {
      await this.#turn(state, latest)
      // A longer one came behind it.
      if (!this.#waiting.delete(state)) return
      await this.#write(state, replaces, drops).catch(() => void this.failed++)
      state.holds--
    })
  }

  /** What waits to be written, and is the beginning of a state that comes behind it, need not be. */
  #skipOlder({ chain }: SavedState): void {
    for (const state of this.#waiting) {
      const length = lengthOf(state)
      if (state.partial || length >= chain.tokens.length) continue
      if (commonLength(state.chain, chain, length) < length) continue
      this.#waiting.delete(state)
      state.holds--
    }
  }

  /** Whether there is something to compute from now on. */
  onWork(isThere: boolean): void {
    this.#isResting = !isThere
    this.#look()
  }

  /** Resolves when a state that waits is to be written, or waits no more. */
  async #turn(state: SavedState, latest: number): Promise<void> {
    while (this.#waiting.has(state) && !this.#isTime(latest)) {
      await new Promise<void>((resolve) => {
        const cancel = this.clock.at(latest, resolve)
        this.#look = () => {
          cancel()
          resolve()
        }
      })
    }
  }

  #isTime(latest: number): boolean {
    if (this.#isResting || this.#isClosing || this.clock.now() >= latest) return true
    let bytes = 0
    for (const state of this.#waiting) bytes += memoryOf(state)
    return bytes > waitingShare * this.ramBytes
  }

  /**
   * Resolves when all is written.
   *
   * @param states - what is in RAM, the latest used last: where that was not to be written before
   */
  async close(states: Iterable<SavedState>): Promise<void> {
    this.#isClosing = true
    if (this.files.whenClosing === true) for (const state of states) this.put(state, false)
    this.#look()
    await this.#writing
  }

  /**
   * Its bytes, or undefined where the file is gone or damaged, there is no memory for it, or it does not
   * come in time: then it cannot be found until the files answer again.
   */
  async read(state: FiledState, allocate: Allocate): Promise<Uint8Array | undefined> {
    let hasRoom = true
    let back: Promise<void> | undefined
    const allocated = (bytes: number) => {
      const room = allocate(bytes)
      hasRoom = room !== undefined
      return room
    }
    const onLate = (end: Promise<void>) => void (back = end)
    const data = await this.files.read(state.file, allocated, onLate)
    if (data !== undefined) {
      void (this.files.whenClosing === true ? this.remove(state) : this.files.touch(state.file))
    } else if (hasRoom) {
      this.failed++
      if (back === undefined) this.#forget(state)
      else void this.#hide(state, back)
    }
    return data
  }

  /** Has nobody find it until then. */
  async #hide(state: FiledState, end: Promise<void>): Promise<void> {
    if (!this.all.has(state)) return
    this.index.remove(state)
    this.version++
    await end
    if (!this.all.has(state)) return
    this.index.add(state)
    this.version++
  }

  async remove(state: FiledState): Promise<void> {
    this.#forget(state)
    await this.files.remove(state.file)
  }

  /** Removes all files, and what is on its way to one. */
  clear(): void {
    this.#drops++
    for (const state of this.#waiting) state.holds--
    this.#waiting.clear()
    this.#look()
    for (const state of this.all) void this.remove(state)
  }

  async #begin(): Promise<void> {
    const key = await this.#key()
    if (key === undefined) return
    const drops = this.#drops
    const onListed = (files: readonly StateFile[]) => {
      const known = new Set([...this.all].map(({ file }) => file.name))
      for (const file of files) {
        // One that comes late may have been written meanwhile.
        if (known.has(file.name)) continue
        // All was dropped meanwhile.
        if (drops !== this.#drops) void this.files.remove(file)
        else this.#add({ ...file, chain: new BlockChain(file.tokens, file.scope), file })
      }
    }
    onListed(await this.files.list(key, onListed))
  }

  /** Undefined where it cannot be had, as when the model's file is gone. */
  async #key(): Promise<string | undefined> {
    return await this.states.key().catch(() => undefined)
  }

  async #write(state: SavedState, replaces: boolean, drops: number): Promise<void> {
    const { chain, partial, data } = state
    const { tokens, scope } = chain
    const key = await this.#key()
    if (drops !== this.#drops) return
    const file =
      key === undefined ? undefined : await this.files.write({ key, scope, partial, tokens }, data)
    if (file === undefined) {
      this.failed++
      return
    }
    if (drops !== this.#drops) return await this.files.remove(file)
    this.saved++
    // One of its name may be hidden.
    this.#forgetFiles([...(file.removed ?? []), file.name])
    const older = replaces && !partial ? [...this.index.within(chain)] : []
    this.#add({ chain, partial, bytes: file.bytes, file })
    for (const one of older) await this.remove(one)
  }

  /** Those that another process dropped are forgotten when they are read. */
  #forgetFiles(names: readonly string[]): void {
    const gone = new Set(names)
    for (const state of this.all) if (gone.has(state.file.name)) this.#forget(state)
  }

  #add(state: FiledState): void {
    this.all.add(state)
    this.index.add(state)
    this.bytes += state.bytes
    this.version++
  }

  #forget(state: FiledState): void {
    if (!this.all.delete(state)) return
    this.index.remove(state)
    this.bytes -= state.bytes
    this.version++
  }
}
