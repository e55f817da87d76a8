import type { Backend } from '../../contracts/model/backend.js'
import type {
  CacheStatistics,
  KvPoolStatistics,
  SlotStatistics,
} from '../../contracts/engine/engine-statistics.js'
import type { KVCacheManager, PrefixIndex, PrefixProducer, Slot } from '../engine-parts.js'
import type { Sequence } from '../requests/sequence.js'
import { longestMatch } from './prefix-index.js'

/**
 * The slots of a backend, and the pool of KV cells if the slots share one; no tiers behind them. Extend it to write a
 * `KV_CACHE_MANAGER`.
 *
 * A request is admitted when the pool has room for its prompt and its expected answer beside the running requests; idle
 * slots are emptied for it, the least recently used first. If answers grow longer than expected and the pool is full, a
 * running request is preempted. vLLM shares its blocks in the same way (Kwon et al., "Efficient Memory Management for
 * Large Language Model Serving with PagedAttention", 2023).
 *
 * @experimental may change in 0.x
 */
export abstract class BaseCacheManager implements KVCacheManager {
  readonly slots: readonly Slot[]
  readonly isPool: boolean
  /** The number of slots with an owner. */
  protected usedCount = 0
  /** Whether a request got no slot for lack of cells, and nothing has changed since. */
  #isFull = false

  constructor(
    protected readonly backend: Backend,
    protected readonly index: PrefixIndex,
  ) {
    const length = backend.limits.slots
    const empty = { chain: undefined, length: 0, blocks: 0, owner: undefined, usedAt: 0 }
    this.slots = Array.from({ length }, (_, id) => ({ id, ...empty }))
    this.isPool = backend.freeTokens !== undefined
  }

  abstract lookUp(sequence: Sequence): number
  abstract acquire(sequence: Sequence): Promise<void>
  abstract onAdvanced(sequence: Sequence): void
  abstract truncate(sequence: Sequence, length: number): void
  abstract shift(sequence: Sequence, keep: number, discard: number): void
  abstract release(sequence: Sequence, now: number): void
  abstract evict(slot: Slot): Promise<void>
  abstract move(from: Slot, to: Slot): Promise<boolean>

  get freeSlots(): number {
    return this.#isFull ? 0 : this.slots.length - this.usedCount
  }

  async admits(sequence: Sequence, answerTokens: (sequence: Sequence) => number): Promise<boolean> {
    if (!this.isPool) return true
    const [held] = this.index.matches(sequence, 'idle', 1)
    const answerOf = (one: Sequence): number => {
      const room = this.backend.limits.contextSize - one.tokens.length
      const most = Math.min(one.maxTokens - one.generatedTokens, room)
      return Math.max(0, Math.min(most, Math.ceil(answerTokens(one))))
    }
    const need = (): number =>
      sequence.tokens.length - this.held(sequence) + this.#outstanding(answerOf)
    if (await this.#makeRoom(() => need() + answerOf(sequence), held?.slot)) return true
    // A request that is alone always fits.
    this.onOverflow()
    return !this.#isFull
  }

  async fits(count: number): Promise<boolean> {
    return !this.isPool || (await this.#makeRoom(() => count, undefined))
  }

  onOverflow(): void {
    this.#isFull = this.usedCount > 0
  }

  pool(): KvPoolStatistics | undefined {
    const { limits, freeTokens: free } = this.backend
    return free === undefined ? undefined : { tokens: limits.kvTokens ?? free, free }
  }

  onQueued(): void {
    this.#isFull = false
  }

  onPreempted(): void {
    this.#isFull = false
  }

  /** Its prefix can be copied now, which takes no further cells. */
  onReleased(): void {
    this.#isFull = false
  }

  onFinished(): void {
    this.#isFull = false
  }

  producerOf(_sequence: Sequence): PrefixProducer | undefined {
    return undefined
  }

  stopProducing(_sequence: Sequence): void {}

  prepare(_sequence: Sequence, _insists: boolean): boolean {
    return true
  }

  get isReading(): boolean {
    return false
  }

  onWaiting(_sequence: Sequence): void {}

  cache(): CacheStatistics | undefined {
    return undefined
  }

  statistics(): SlotStatistics[] {
    return this.slots.map(({ id: slot, owner, length }) => {
      const { id: request, state = 'idle', slotTokens: tokens = length } = owner ?? {}
      return { slot, request, state, tokens }
    })
  }

  /** The slot of a running sequence. */
  protected slotOf(sequence: Sequence): Slot | undefined {
    const slot = this.slots[sequence.slot ?? -1]
    return slot?.owner === sequence ? slot : undefined
  }

  /** Makes the sequence the owner of a free slot. */
  protected give(slot: Slot, sequence: Sequence): void {
    slot.owner = sequence
    slot.program = undefined
    sequence.slot = slot.id
    this.usedCount++
  }

  /** The slot has no owner any more, and keeps the tokens that it holds. */
  protected takeBack(slot: Slot, now: number): void {
    const { owner } = slot
    if (owner === undefined) return
    const { isShared, program, finish } = owner
    slot.length = owner.slotTokens
    slot.usedAt = now
    if (isShared && program !== undefined) {
      slot.program = program
      program.slot = slot
    }
    owner.keptIn = isShared && finish !== undefined ? slot.id : undefined
    owner.slot = undefined
    slot.owner = undefined
    this.usedCount--
  }

  /** Empties idle slots until there is room for `need()` tokens, `last` only after all others. */
  async #makeRoom(need: () => number, last: Slot | undefined): Promise<boolean> {
    const { backend } = this
    const isThere = (): boolean => (backend.freeTokens ?? Infinity) >= need()
    if (isThere()) return true
    const idle = this.slots.filter(({ owner, length }) => owner === undefined && length > 0)
    const most = idle.reduce((sum, { length }) => sum + length, backend.freeTokens ?? 0)
    if (most < need() && this.usedCount > 0) return false
    const order = this.inOrderOfLoss(idle).filter((slot) => slot !== last)
    for (const slot of last === undefined ? order : [...order, last]) {
      await this.evict(slot)
      if (isThere()) return true
    }
    return false
  }

  /** Idle slots as they are emptied for others: the longest unused first. */
  protected inOrderOfLoss(idle: readonly Slot[]): readonly Slot[] {
    return idle.toSorted((a, b) => a.usedAt - b.usedAt)
  }

  /** Tokens of a waiting request that some slot holds. */
  protected held(sequence: Sequence): number {
    const idle = longestMatch(this.index, sequence, 'idle')
    return Math.max(idle, longestMatch(this.index, sequence, 'running'))
  }

  /** Tokens that the running requests are still expected to need. */
  #outstanding(answerOf: (sequence: Sequence) => number): number {
    let sum = 0
    for (const { owner } of this.slots) {
      if (owner === undefined) continue
      sum += owner.tokens.length - owner.computedTokens + answerOf(owner)
    }
    return sum
  }
}
