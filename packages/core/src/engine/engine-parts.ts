import type { InjectionToken } from 'tsyringe'
import type { SlotId } from '../contracts/model/backend.js'
import type { EngineObserver } from '../contracts/engine/engine-observer.js'
import type { Forecast } from '../contracts/engine/generate-events.js'
import type {
  CacheStatistics,
  KvPoolStatistics,
  SlotStatistics,
} from '../contracts/engine/engine-statistics.js'
import type { BlockChain } from './kv/block-chain.js'
import type { LoopWork } from './loop/between-steps.js'
import type { Program } from './programs/program.js'
import type { Sequence } from './requests/sequence.js'
import { token } from '../tokens.js'

/**
 * The features of an engine, each made when it is first asked for. Provided as `FEATURES`.
 *
 * @experimental may change in 0.x
 */
export interface Features {
  /** The feature of this class or token. */
  get<T>(feature: InjectionToken<T>): T
}

/** The {@link Features} of the engine. */
export const FEATURES = token<Features>('Features')

/**
 * Refuses requests before they join the queue. Provided as `ADMISSION`.
 *
 * @experimental may change in 0.x
 */
export interface Admission {
  /**
   * Checks the length of the queue before any work is done for a new request. Throws `queue_full`.
   *
   * @param arriving - requests whose prompts are still being tokenized
   */
  checkCount(arriving: number, now: number): void
  /**
   * Checks a request that is about to join the queue; it has a forecast if it has to wait. Throws `queue_full` or
   * `wait_too_long`.
   */
  check(sequence: Sequence, now: number): void
}

/** The {@link Admission}: which requests may join the queue. Experimental. */
export const ADMISSION = token<Admission>('Admission')

/**
 * Predicts from its observations when requests will be served. Provided as `WAIT_PREDICTOR`. A predictor that builds on
 * `original()` must forward the observer's calls to it, or it never learns.
 *
 * @experimental may change in 0.x
 */
export interface WaitPredictor extends EngineObserver {
  /** The forecast for a request that arrives now. */
  forecast(sequence: Sequence, now: number): Forecast
  /** How many more tokens a request is expected to generate. Default: all that it may. */
  answerTokens?(sequence: Sequence): number
  /** Milliseconds until the waiting request at this place, from 0, gets a slot. */
  waitMs(place: number, now: number): number
}

/** The {@link WaitPredictor} behind forecasts and `--max-queue-wait`. Experimental. */
export const WAIT_PREDICTOR = token<WaitPredictor>('WaitPredictor')

/**
 * A KV slot as the engine knows it.
 *
 * @experimental may change in 0.x
 */
export interface Slot {
  readonly id: SlotId
  /** Its content is the keys and values of the first of these tokens; undefined: content that cannot be shared. */
  chain: BlockChain | undefined
  /** The number of tokens that it holds while it has no owner. */
  length: number
  /** The number of its blocks in the index. */
  blocks: number
  owner: Sequence | undefined
  usedAt: number
  /**
   * The program whose tokens it keeps while it has no owner; undefined: of no known program. `give` and `takeBack` of
   * {@link BaseCacheManager} maintain it. A manager that evicts a slot clears it or sets `length` to 0.
   */
  program?: Program | undefined
}

/** A request that computes a prefix which a waiting request shares. */
export interface PrefixProducer {
  readonly sequence: Sequence
  /** The length of the shared prefix in tokens. */
  readonly shared: number
}

/**
 * A slot and the number of leading tokens of a sequence that it holds.
 *
 * @experimental may change in 0.x
 */
export interface Match {
  readonly slot: Slot
  readonly shared: number
}

/**
 * Gives slots to sequences, and decides which cached tokens are reused: from the slots, the pool of cells and the tiers
 * behind the slots. Provided as `KV_CACHE_MANAGER`; extend {@link BaseCacheManager} to write one. A manager that builds
 * on `original()` must forward the observer's calls to it.
 *
 * @experimental may change in 0.x
 */
export interface KVCacheManager extends LoopWork, EngineObserver {
  readonly slots: readonly Slot[]
  /** Slots that can be given to requests now; 0 while the pool of KV cells is full. */
  readonly freeSlots: number
  /** Whether all slots share one pool of KV cells (`limits.kvTokens`). */
  readonly isPool: boolean
  /** How many leading tokens of a waiting sequence would be cached if it were admitted now. */
  lookUp(sequence: Sequence): number
  /**
   * The running request that is computing a prefix of this waiting sequence, if waiting for it and copying is cheaper
   * than computing it again.
   */
  producerOf(sequence: Sequence): PrefixProducer | undefined
  /** From now on no request waits for a prefix that this sequence computes. */
  stopProducing(sequence: Sequence): void
  /** A sequence waits for a slot from now on. */
  onWaiting(sequence: Sequence): void
  /**
   * Makes room in the pool for a waiting sequence; false: it must wait until others have ended. Only called if there is
   * a pool.
   *
   * @param answerTokens - how many more tokens a sequence is expected to generate
   */
  admits(sequence: Sequence, answerTokens: (sequence: Sequence) => number): Promise<boolean>
  /** Makes room in the pool for this many tokens; false: running requests occupy too many cells. */
  fits(count: number): Promise<boolean>
  /**
   * The pool was full, and a request was preempted: no request is admitted until one has joined the queue, has ended,
   * loses its slot or is no longer held back.
   */
  onOverflow(): void
  /**
   * Whether a waiting sequence can get a slot without delaying decoding requests for long. If not, what it needs is made
   * ready beside the steps, and this is called again before the next step. If nothing else can be computed (`insists`),
   * only files that are being read are waited for.
   */
  prepare(sequence: Sequence, insists: boolean): boolean
  /** Whether files are being read for waiting requests; the end of a read wakes the loop. */
  readonly isReading: boolean
  /** Gives the sequence a free slot with as many of its cached leading tokens as possible. */
  acquire(sequence: Sequence): Promise<void>
  /** The sequence has computed more of its tokens. */
  onAdvanced(sequence: Sequence): void
  /**
   * Removes rejected draft tokens from a running sequence's slot: keeps the first `length` tokens, and notes how many
   * the backend really kept.
   */
  truncate(sequence: Sequence, length: number): void
  /**
   * Drops `discard` tokens behind the first `keep` of a running sequence's slot, which no other request may use from
   * then on.
   */
  shift(sequence: Sequence, keep: number, discard: number): void
  /**
   * Takes the slot back and keeps its tokens for reuse, if they may be shared. From now on no request waits for tokens
   * that the sequence would have computed.
   */
  release(sequence: Sequence, now: number): void
  /** Empties a slot without an owner. */
  evict(slot: Slot): Promise<void>
  /**
   * Milliseconds that it costs if an idle slot's content is lost and needed again. Default: computing all of its tokens.
   */
  lossMs?(slot: Slot): number
  /** Moves a running sequence into a free slot; returns whether that succeeded. */
  move(from: Slot, to: Slot): Promise<boolean>
  /** The present content of each slot. */
  statistics(): SlotStatistics[]
  /** The pool of KV cells; undefined where each slot has its own. */
  pool(): KvPoolStatistics | undefined
  /** Statistics of the tiers behind the slots; undefined without tiers. */
  cache(): CacheStatistics | undefined
}

/** The {@link KVCacheManager}. Experimental. */
export const KV_CACHE_MANAGER = token<KVCacheManager>('KVCacheManager')

/**
 * Finds the slots that hold, or will hold, the longest prefix of a prompt. Provided as
 * `PREFIX_INDEX`.
 *
 * @experimental may change in 0.x
 */
export interface PrefixIndex {
  /** Changes whenever look-ups may have other results, so that these can be cached until then. */
  readonly version: number
  /**
   * The idle or the running slots with the most leading tokens of the sequence, at most `limit` slots.
   */
  matches(sequence: Sequence, kind: 'idle' | 'running', limit?: number): Iterable<Match>
  /** How many leading tokens of an idle slot another slot has, too. */
  sharedWithOthers(slot: Slot): number
  /** The sequence that is computing the longest prefix of this one, and the prefix's length. */
  planned(sequence: Sequence): PrefixProducer | undefined
  /** A sequence got the slot: indexes its computed tokens. Sets `slot.chain`, so that they can be shared. */
  occupy(slot: Slot, sequence: Sequence): void
  /** The sequence in the slot has computed more. */
  grow(slot: Slot, sequence: Sequence): void
  /** Removes the tokens that the sequence would compute. */
  unplan(sequence: Sequence): void
  /** Removes the slot's content. */
  drop(slot: Slot): void
  /** The slot has no owner any more: indexes the content that it keeps. Sets `slot.chain`. */
  keep(slot: Slot, sequence: Pick<Sequence, 'chain'>): void
}

/** The {@link PrefixIndex} of the KV cache manager. Experimental. */
export const PREFIX_INDEX = token<PrefixIndex>('PrefixIndex')
