import { inject, injectable } from 'tsyringe'
import { entryOf } from '../../defined.js'
import { ENGINE_COSTS, type EngineCosts } from '../costs/engine-costs.js'
import { KV_CACHE_MANAGER, type KVCacheManager } from '../engine-parts.js'
import { EngineObservers } from '../report/engine-observers.js'
import type { Sequence } from '../requests/sequence.js'
import { WaitingQueue } from '../requests/request-sets.js'
import { BlockIndex, blockSize, minimumWait } from './block-chain.js'

interface Group {
  /** When the consumers are released even if the producer has not computed their prefix. */
  readonly deadline: number
  /** The consumers, and how many tokens the producer must have computed for each. */
  readonly consumers: Map<Sequence, number>
}

/** The deadline of a producer: this many times the time that it would need alone, plus `patienceMs`. */
const patience = 4
const patienceMs = 1000
/** The most producers that a request waits for, one after the other, as each may leave. */
const mostWaits = 3
/** The most waiting requests with the same beginning that are examined per admission. */
const mostLooks = 1024

const watchedBlocks = minimumWait / blockSize

/**
 * Holds back a request whose prompt shares a prefix with a request in prefill, until that prefix is in the KV cache and
 * can be copied (the in-batch deduplication of SGLang's scheduler, for every policy). Policies do not see the requests
 * that are held back.
 */
@injectable()
export class InFlightPrefixSharing {
  readonly #groups = new Map<Sequence, Group>()
  readonly #producers = new Map<Sequence, Sequence>()
  /** Waiting requests with the same first blocks, indexed by the hash of the last of these blocks. */
  readonly #alike = new BlockIndex<Sequence>()
  /** How often each request was held back. */
  readonly #waits = new WeakMap<Sequence, number>()

  constructor(
    @inject(KV_CACHE_MANAGER) private readonly kv: KVCacheManager,
    @inject(ENGINE_COSTS) private readonly costs: EngineCosts,
    @inject(WaitingQueue) private readonly waiting: WaitingQueue,
    @inject(EngineObservers) private readonly observers: EngineObservers,
  ) {}

  /** A request waits from now on. */
  onWaiting(sequence: Sequence, now: number): void {
    if (!isWatched(sequence)) return
    this.#alike.add(sequence, sequence.chain.hashes, watchedBlocks - 1, watchedBlocks)
    this.defer(sequence, now)
  }

  /** A request no longer waits. */
  onLeft(sequence: Sequence): void {
    if (!isWatched(sequence)) return
    this.#alike.remove(sequence, sequence.chain.hashes, watchedBlocks - 1, watchedBlocks)
    const producer = this.#producers.get(sequence)
    if (producer !== undefined) this.#groups.get(producer)?.consumers.delete(sequence)
    this.#producers.delete(sequence)
  }

  /** Holds a waiting request back if that is worth it; returns whether it is held. */
  defer(sequence: Sequence, now: number): boolean {
    const waits = this.#waits.get(sequence) ?? 0
    if (sequence.state !== 'queued' || waits === mostWaits || !isWatched(sequence)) return false
    if (this.#producers.has(sequence)) return true
    // It is held back already, until its file is encoded: it is asked about again when it is to be admitted.
    if (!this.waiting.has(sequence.id)) return false
    const found = this.kv.producerOf(sequence)
    if (found === undefined) return false
    const { sequence: producer, shared } = found
    const group = entryOf(this.#groups, producer, () => {
      const ms = patience * this.costs.steps.tokensMs(producer.remainingTokens) + patienceMs
      return { deadline: now + ms, consumers: new Map() }
    })
    group.consumers.set(sequence, shared)
    this.#producers.set(sequence, producer)
    this.#waits.set(sequence, waits + 1)
    this.waiting.hold(sequence)
    this.observers.tell('onHeld', sequence, now)
    return true
  }

  /** A request got a slot and begins to compute: others may wait for it. */
  onAdmitted(producer: Sequence, now: number): void {
    if (producer.remainingTokens < minimumWait || !isWatched(producer)) return
    let looks = mostLooks
    for (const sequence of this.#alike.holders(producer.chain.hashes, watchedBlocks)) {
      if (looks-- === 0) return
      this.defer(sequence, now)
    }
  }

  /** A producer has computed this many tokens: the requests that needed no more are released. */
  onAdvanced(producer: Sequence, computed: number, now: number): void {
    const consumers = this.#groups.get(producer)?.consumers
    if (consumers === undefined) return
    const served: Sequence[] = []
    for (const [sequence, shared] of consumers) {
      if (shared > computed) continue
      served.push(sequence)
      consumers.delete(sequence)
      this.#producers.delete(sequence)
      this.observers.tell('onReleased', sequence, now)
    }
    this.waiting.unhold(served)
    if (consumers.size === 0) this.#groups.delete(producer)
  }

  /** Releases the requests that have waited long enough. */
  expire(now: number): void {
    for (const [producer, { deadline }] of this.#groups) {
      if (deadline > now) continue
      this.kv.stopProducing(producer)
      this.onAdvanced(producer, Infinity, now)
    }
  }

  /** When the next requests have waited long enough; without any: Infinity. */
  next(): number {
    let next = Infinity
    for (const { deadline } of this.#groups.values()) next = Math.min(next, deadline)
    return next
  }
}

/** Whether it may share its first blocks. */
const isWatched = ({ request, chain }: Sequence): boolean =>
  request.cache && chain.hashes.length >= watchedBlocks
