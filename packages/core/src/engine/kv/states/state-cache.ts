import { inject, injectable } from 'tsyringe'
import type { Backend, SlotId } from '../../../contracts/model/backend.js'
import type { StateFiles, StateMemorySource, SlotStates } from '../../../contracts/model/states.js'
import type { CacheStatistics, CachedState } from '../../../contracts/engine/engine-statistics.js'
import type { Clock } from '../../../contracts/services.js'
import * as tokens from '../../../tokens.js'
import { ENGINE_COSTS, type EngineCosts } from '../../costs/engine-costs.js'
import { ENGINE_OPTIONS, type EngineOptions } from '../../engine-options.js'
import type { Slot } from '../../engine-parts.js'
import { BetweenSteps } from '../../loop/between-steps.js'
import type { Sequence } from '../../requests/sequence.js'
import { type BlockChain, commonLength } from '../block-chain.js'
import {
  findInTiers,
  type FoundState,
  type IndexedState,
  type KeptState,
  type SavedState,
  bytesOf,
  filesOf,
  lengthOf,
} from './state-index.js'
import { StateDisk } from './state-disk.js'
import { StateTransfer } from './state-transfer.js'
import { StateStore } from './state-store.js'
import { StateWorth } from './state-worth.js'

/**
 * Keeps the contents of slots in RAM when the slots are given to other requests, and finds them again: the tier between
 * the slots and computing. Off without `cacheRamBytes`, or where the backend saves no states.
 */
@injectable()
export class StateCache {
  readonly isOn: boolean
  /** Whether there is a tier of files behind RAM. */
  readonly hasFiles: boolean
  /** Whether slots can be cut at any token, so that they need no checkpoints; true as well without saved states. */
  readonly cutsAnywhere: boolean
  readonly #states: SlotStates | undefined
  readonly #store: StateStore
  readonly #disk: StateDisk | undefined
  /** Whether the files that earlier engines left are listed. */
  #isListed: boolean
  /** Saves and restores states. */
  readonly transfer: StateTransfer
  /** Weighs what states are worth. */
  readonly worth: StateWorth

  constructor(
    @inject(tokens.BACKEND) { states }: Backend,
    @inject(tokens.CLOCK) private readonly clock: Clock,
    @inject(ENGINE_COSTS) private readonly costs: EngineCosts,
    @inject(ENGINE_OPTIONS) { cacheRamBytes }: EngineOptions,
    @inject(tokens.STATE_FILES)
    { files, memory }: { readonly files?: StateFiles; readonly memory?: StateMemorySource },
    @inject(BetweenSteps) between: BetweenSteps,
  ) {
    this.#states = cacheRamBytes > 0 ? states : undefined
    const gainMs = (state: SavedState) => this.worth.gainMs(state)
    this.#store = new StateStore(cacheRamBytes, clock, gainMs, memory)
    this.worth = new StateWorth(this.#states, this.#store, costs, clock)
    if (files !== undefined && this.#states !== undefined) {
      this.#disk = new StateDisk(files, this.#states, clock, cacheRamBytes)
    }
    const onRead = () => between.notify()
    this.transfer = new StateTransfer(this.#states, this.#store, this.#disk, clock, costs, onRead)
    this.isOn = this.#states !== undefined
    this.hasFiles = this.#disk !== undefined
    this.cutsAnywhere = this.#states?.cutsAnywhere ?? true
    this.#isListed = !this.hasFiles
    void this.#disk?.ready.then(() => {
      this.#isListed = true
      this.#store.expect([...this.#disk!.all].at(-1)?.bytes ?? 0)
      between.notify()
    })
  }

  /** Changes whenever {@link find} may have another result. */
  get version(): number {
    return this.#store.index.version + (this.#disk?.index.version ?? 0)
  }

  /** The state that saves computing the most tokens of the sequence. */
  find(sequence: Sequence): FoundState | undefined {
    if (this.#states === undefined || !sequence.request.cache) return undefined
    if (this.#store.states.size === 0 && this.#disk === undefined) return undefined
    return findInTiers(this.#store, this.#disk?.index, sequence, this.#states)
  }

  /** Milliseconds that restoring it is predicted to take. */
  loadMs(found: FoundState): number {
    const { states } = this.costs
    const readMs = filesOf(found).reduce((sum, { bytes }) => sum + states.readMs(bytes), 0)
    return states.loadMs(bytesOf(found)) + readMs
  }

  /** Whether files are being listed or read; when that ends, the loop is woken. */
  get isReading(): boolean {
    return !this.#isListed || this.transfer.readCount > 0
  }

  /** Whether what was found for a request can be restored now; otherwise its file is being read. */
  isAtHand(sequence: Sequence, found: FoundState | undefined): boolean {
    if (!this.#isListed) return false
    return found === undefined || this.transfer.isAtHand(sequence, found)
  }

  /** As {@link StateStore.prepare}. */
  prepareMemory(bytes: number): boolean {
    return this.#store.prepare(bytes)
  }

  /**
   * For a waiting request: if its state is in a file, and reading it is cheaper than computing the tokens, it is read
   * into RAM beside the steps, provided that nothing has to be evicted for it.
   *
   * @param held - its tokens that slots hold already
   * @param most - files read at a time
   */
  readAhead(sequence: Sequence, held: () => number, most: number): void {
    if (this.#disk === undefined || this.transfer.readCount >= most) return
    const found = this.find(sequence)
    if (found === undefined || filesOf(found).length === 0) return
    const savesMs = this.costs.steps.tokensMs(found.shared - held())
    if (savesMs <= this.loadMs(found) || !this.transfer.hasRoom(bytesOf(found))) return
    this.transfer.readAhead(sequence, found)
  }

  /** Whether restoring it would not keep decoding requests waiting for too long. */
  canLoad(found: FoundState): boolean {
    const insteadMs = this.costs.steps.tokensMs(found.shared)
    return this.costs.pauses.canLoad(this.loadMs(found), insteadMs)
  }

  /** Saves the content of an idle slot and keeps it, and the checkpoints to which it can be cut back. */
  async pin({ id, chain, length }: Slot, kept: KeptState): Promise<void> {
    if (this.#states === undefined || chain === undefined || length === 0) return
    const { index } = this.#store
    if (index.find(chain, length, false) === undefined)
      await this.transfer.save({ id, chain, length })
    const saved = index.find(chain, length, false)
    if (saved === undefined) return
    const checkpoints = this.cutsAnywhere ? [] : index.within(saved.chain, true)
    for (const state of [...checkpoints, saved]) this.#store.keep(state, kept)
  }

  /** Restores a found state into a slot. Returns how many tokens the slot has then; 0 where it failed. */
  async load(slot: Slot, sequence: Sequence, found: FoundState): Promise<number> {
    const { state, checkpoint, shared } = found
    // It was found by hashes: all tokens are compared before it is used.
    if (commonLength(state.chain, sequence.chain, shared) < shared) return 0
    const began = this.clock.now()
    const isThere =
      (await this.#restore(slot, state)) &&
      (checkpoint === undefined || (await this.#restore(slot, checkpoint)))
    this.costs.pauses.onPause(this.clock.now() - began)
    if (!isThere) return 0
    const { transfer } = this
    transfer.onHit(shared, transfer.isFromFile(found, sequence) ? 'disk' : 'ram')
    return lengthOf(checkpoint ?? state)
  }

  async #restore(slot: Slot, found: FoundState['state']): Promise<boolean> {
    const state = 'file' in found ? await this.transfer.readNow(found) : found
    return state !== undefined && (await this.transfer.restore(slot.id, state))
  }

  /** Whether a slot can be cut to this many tokens without a checkpoint. */
  canCut(slot: SlotId, length: number): boolean {
    return this.cutsAnywhere || this.#states?.canCut(slot, length) === true
  }

  /** The longest checkpoint of the sequence's beginning, of at most `limit` tokens. */
  checkpoint(sequence: Sequence, limit: number): SavedState | undefined {
    return this.#store.index.exact(sequence, true, limit)
  }

  /** How many leading tokens of the sequence some state in RAM has. */
  known(sequence: Sequence): number {
    if (!sequence.request.cache || this.#store.states.size === 0) return 0
    return this.#store.index.best(sequence)?.shared ?? 0
  }

  hasCheckpoint(chain: BlockChain, length: number): boolean {
    return this.#store.index.find(chain, length, true) !== undefined
  }

  /** Milliseconds that copying a slot by saving and restoring takes. */
  copyMs({ owner, length }: Slot): number {
    const { states } = this.costs
    const bytes = states.bytesOf(owner?.computedTokens ?? length)
    return states.saveMs(bytes) + states.loadMs(bytes)
  }

  /** Waits until all states that belong into files are written. */
  async close(): Promise<void> {
    await this.#disk?.close(this.#store.states)
  }

  /** Tells whether the engine has work from now on: files are written while it has none. */
  onWork(isThere: boolean): void {
    this.#disk?.onWork(isThere)
  }

  /** Counts for `EngineStatistics`; undefined while it is off. */
  statistics(): CacheStatistics | undefined {
    if (!this.isOn) return undefined
    const { states, bytes, limit: limitBytes, evictions } = this.#store
    const ram = { states: states.size, bytes, limitBytes, evictions, ...this.transfer.counts }
    const { longestPauseMs } = this.transfer
    const disk = this.#disk
    if (disk === undefined) return { ram, longestPauseMs }
    const { all, bytes: diskBytes, files, saved, failed } = disk
    const own = { states: all.size, bytes: diskBytes, limitBytes: files.limitBytes, saved, failed }
    return { ram, disk: { ...this.transfer.diskCounts, ...own }, longestPauseMs }
  }

  /** The states as clients see them: those in RAM, then those in files. */
  list(): CachedState[] {
    const now = this.clock.now()
    const inRam = Array.from(this.#store.states, (state) => ({
      ...describe('ram', state),
      pinned: (state.kept?.until ?? 0) > now,
    }))
    const inFiles = Array.from(this.#disk?.all ?? [], (state) => describe('disk', state))
    return [...inRam, ...inFiles]
  }

  /** Drops all states, including those in files. */
  drop(): void {
    for (const state of this.#store.states) this.#store.remove(state)
    this.#disk?.clear()
  }
}

function describe(tier: CachedState['tier'], state: IndexedState): CachedState {
  const { bytes, partial: checkpoint } = state
  return { tier, tokens: lengthOf(state), bytes, checkpoint, pinned: false }
}
