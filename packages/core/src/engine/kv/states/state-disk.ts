import type { Clock } from '../../../contracts/services.js'
import type {
  SaveOptions,
  StateFile,
  StateFiles,
  SlotStates,
} from '../../../contracts/model/states.js'
import { BlockChain, commonLength } from '../block-chain.js'
import { type FiledState, type SavedState, memoryOf, lengthOf, StateIndex } from './state-index.js'

/** The longest time in milliseconds that a state waits to be written while the engine has work. */
const patienceMs = 30_000
/** Beyond this share of the memory for states, waiting states are written at once. */
const waitingShare = 1 / 4

/** Allocates memory for this many bytes; undefined where there is none. */
type Allocate = NonNullable<SaveOptions['allocate']>

/**
 * The tier of files: states saved in RAM are written to files one after the other, where the next engine finds them,
 * too. Writing takes CPU time and memory bandwidth that steps need, so it is put off while the engine has work; a
 * longer state may replace a waiting one meanwhile. Files that cannot be read are ignored.
 */
export class StateDisk {
  readonly index = new StateIndex<FiledState>()
  /** All listed states, the most recently used last. */
  readonly all = new Set<FiledState>()
  /** Resolves when the files that earlier engines left are listed. */
  readonly ready: Promise<void>
  #writing: Promise<void> = Promise.resolve()
  /** The states that are still to be written, in this order. */
  readonly #waiting = new Set<SavedState>()
  /** Whether the engine has no work. */
  #isResting = true
  /** Whether `close` waits until all is written. */
  #isClosing = false
  /** Has the waiting states check again whether they are to be written now. */
  #look = () => {}
  /** How often all states were dropped: a state that was put before that is not written. */
  #drops = 0
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

  /** Writes a state after those before it. Its bytes must not change until then. */
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
      // A longer state has replaced it.
      if (!this.#waiting.delete(state)) return
      await this.#write(state, replaces, drops).catch(() => void this.failed++)
      state.holds--
    })
  }

  /** Waiting states that are a beginning of this new one need not be written. */
  #skipOlder({ chain }: SavedState): void {
    for (const state of this.#waiting) {
      const length = lengthOf(state)
      if (state.partial || length >= chain.tokens.length) continue
      if (commonLength(state.chain, chain, length) < length) continue
      this.#waiting.delete(state)
      state.holds--
    }
  }

  /** Tells whether the engine has work from now on. */
  onWork(isThere: boolean): void {
    this.#isResting = !isThere
    this.#look()
  }

  /** Resolves when a waiting state is to be written, or no longer waits. */
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
   * @param states - all states in RAM, the most recently used last; written now if they are only written at the end
   */
  async close(states: Iterable<SavedState>): Promise<void> {
    this.#isClosing = true
    if (this.files.whenClosing === true) for (const state of states) this.put(state, false)
    this.#look()
    await this.#writing
  }

  /**
   * The bytes of a state. Undefined where its file is gone or damaged, memory is short, or the read takes too long; a
   * slow file is not found until the read has ended.
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

  /** Takes it out of the index until the slow read has ended. */
  async #hide(state: FiledState, end: Promise<void>): Promise<void> {
    if (!this.all.has(state)) return
    this.index.remove(state)
    await end
    if (!this.all.has(state)) return
    this.index.add(state)
  }

  async remove(state: FiledState): Promise<void> {
    this.#forget(state)
    await this.files.remove(state.file)
  }

  /** Removes all files, and the states that wait to be written. */
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
        // A file that is listed late may have been written meanwhile.
        if (known.has(file.name)) continue
        // All states were dropped meanwhile.
        if (drops !== this.#drops) void this.files.remove(file)
        else this.#add({ ...file, chain: new BlockChain(file.tokens, file.scope), file })
      }
    }
    onListed(await this.files.list(key, onListed))
  }

  /** The key of this model's states; undefined where it is unknown, as when the model's file is gone. */
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
    // A hidden state may have the same file name.
    this.#forgetFiles([...(file.removed ?? []), file.name])
    const older = replaces && !partial ? [...this.index.within(chain)] : []
    this.#add({ chain, partial, bytes: file.bytes, file })
    for (const one of older) await this.remove(one)
  }

  /** Files that another process removed are only noticed when they are read. */
  #forgetFiles(names: readonly string[]): void {
    const gone = new Set(names)
    for (const state of this.all) if (gone.has(state.file.name)) this.#forget(state)
  }

  #add(state: FiledState): void {
    this.all.add(state)
    this.index.add(state)
    this.bytes += state.bytes
  }

  #forget(state: FiledState): void {
    if (!this.all.delete(state)) return
    this.index.remove(state)
    this.bytes -= state.bytes
  }
}
