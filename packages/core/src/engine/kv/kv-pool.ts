import { inject, injectable } from 'tsyringe'
import type { Backend } from '../../contracts/model/backend.js'
import type { KvPoolStatistics } from '../../contracts/engine/engine-statistics.js'
import type { EngineObserver } from '../../contracts/engine/engine-observer.js'
import * as tokens from '../../tokens.js'
import type { KVCacheManager, PrefixIndex, Slot, WaitPredictor } from '../engine-parts.js'
import { RunningSet } from '../requests/running-set.js'
import type { Sequence } from '../requests/sequence.js'

/**
 * Shares out the KV cells of a backend whose slots have none of their own. A request is admitted when
 * there is room for its prompt and its expected answer beside those that run; idle slots are emptied
 * for it, the longest unused first. Answers that grow longer than expected can use the cells up: then
 * a running request has to give its slot back.
 *
 * Reserving what a request is expected to need, and preempting where that was too little, is how vLLM
 * shares its blocks (Kwon et al., "Efficient Memory Management for Large Language Model Serving with
 * PagedAttention", 2023).
 */
@injectable()
export class KvPool implements EngineObserver {
  /** Whether a request was refused a slot, and nothing has changed since. */
  #isFull = false

  constructor(
    @inject(tokens.BACKEND) private readonly backend: Backend,
    @inject(tokens.KV_CACHE_MANAGER) private readonly kv: KVCacheManager,
    @inject(tokens.PREFIX_INDEX) private readonly index: PrefixIndex,
    @inject(tokens.WAIT_PREDICTOR) private readonly predictor: WaitPredictor,
    @inject(RunningSet) private readonly running: RunningSet,
  ) {}

  /** Whether slots share cells at all. */
  get isShared(): boolean {
    return this.backend.freeTokens !== undefined
  }

  /** Slots that can be given out. */
  get freeSlots(): number {
    return this.#isFull ? 0 : this.kv.freeCount
  }

  statistics(): KvPoolStatistics | undefined {
    const { limits, freeTokens: free } = this.backend
    return free === undefined ? undefined : { tokens: limits.kvTokens ?? free, free }
  }

  /** Makes room for a waiting request; false: it must wait until others have ended. */
  async admits(sequence: Sequence): Promise<boolean> {
    if (!this.isShared) return true
    const [held] = this.index.matches(sequence, 'idle', 1)
    const need = (): number => this.#missing(sequence) + this.#outstanding()
    if (await this.#makeRoom(need, held?.slot)) return true
    // Alone it always fits.
    this.#isFull = this.running.size > 0
    return !this.#isFull
  }

  /** Makes room for a step's tokens, or what is restored; false: running requests hold too much. */
  async fits(count: number): Promise<boolean> {
    return !this.isShared || (await this.#makeRoom(() => count, undefined))
  }

  /** The cells were used up, and a request lost its slot: none is admitted before another ends. */
  onOverflow(): void {
    this.#isFull = this.running.size > 0
  }

  onQueued(): void {
    this.#isFull = false
  }

  onPreempted(): void {
    this.#isFull = false
  }

  /** What it needs of its prefix takes no cells of its own now. */
  onReleased(): void {
    this.#isFull = false
  }

  onFinished(): void {
    this.#isFull = false
  }

  /** Empties idle slots until there is room for `need()` tokens, `last` only after all others. */
  async #makeRoom(need: () => number, last: Slot | undefined): Promise<boolean> {
    const { backend, kv } = this
    const isThere = (): boolean => (backend.freeTokens ?? Infinity) >= need()
    if (isThere()) return true
    const idle = kv.slots.filter(({ owner, length }) => owner === undefined && length > 0)
    const most = idle.reduce((sum, { length }) => sum + length, backend.freeTokens ?? 0)
    if (most < need() && this.running.size > 0) return false
    const turn = (slot: Slot): number => (slot === last ? Infinity : slot.usedAt)
    for (const slot of idle.toSorted((a, b) => turn(a) - turn(b))) {
      await kv.evict?.(slot)
      if (isThere()) return true
    }
    return false
  }

  /** Tokens that a waiting request needs beyond those that slots hold of it. */
  #missing(sequence: Sequence): number {
    const held = Math.max(this.index.idle(sequence), this.index.running(sequence))
    return sequence.tokens.length - held + this.#answerOf(sequence)
  }

  /** Tokens that the running requests are still expected to need. */
  #outstanding(): number {
    return this.running.list.reduce(
      (sum, sequence) =>
        sum + sequence.tokens.length - sequence.computedTokens + this.#answerOf(sequence),
      0,
    )
  }

  #answerOf(sequence: Sequence): number {
    const { maxTokens, generatedTokens, tokens } = sequence
    const most = Math.min(
      maxTokens - generatedTokens,
      this.backend.limits.contextSize - tokens.length,
    )
    const expected = this.predictor.answerTokens?.(sequence) ?? most
    return Math.max(0, Math.min(most, Math.ceil(expected)))
  }
}
