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
   * Looks at the length of the queue before anything is done for one more request. Throws
   * `queue_full`.
   *
   * @param arriving - requests whose prompts are still being tokenized
   */
  checkCount(arriving: number, now: number): void
  /**
   * Looks at a request that is about to join the queue, with its forecast where it has to wait. Throws
   * `queue_full` or `wait_too_long`.
   */
  check(sequence: Sequence, now: number): void
}

/** The {@link Admission}: which requests may join the queue. Experimental. */
export const ADMISSION = token<Admission>('Admission')

/**
 * Predicts when requests will be served, from what it observes. Provided as `WAIT_PREDICTOR`. One
 * that builds on `original()` must forward the observer's calls to it, or it never learns.
 *
 * @experimental may change in 0.x
 */
export interface WaitPredictor extends EngineObserver {
  /** What a request that arrives now can expect. */
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
  /** The tokens whose keys and values it holds are the first of these; undefined: nothing to share. */
  chain: BlockChain | undefined
  /** Tokens that it holds while it has no owner. */
  length: number
  /** Blocks that can be found in the index. */
  blocks: number
  owner: Sequence | undefined
  usedAt: number
  /** Of what it keeps while it has no owner; undefined: of a request that is alone. */
  program?: Program | undefined
}

/** A request that computes tokens which another one waits for. */
export interface PrefixProducer {
  readonly sequence: Sequence
  /** How many tokens they share that a slot will hold. */
  readonly shared: number
}

/**
 * A slot that holds the first tokens of a sequence, and how many.
 *
 * @experimental may change in 0.x
 */
export interface Match {
  readonly slot: Slot
  readonly shared: number
}

/**
 * Gives slots to sequences and decides what of the KV cache is reused: the slots, the cells that they share
 * and the tiers behind them. Provided as `KV_CACHE_MANAGER`; extend {@link BaseCacheManager} to write one.
 * One that builds on `original()` must forward the observer's calls to it.
 *
 * @experimental may change in 0.x
 */
export interface KVCacheManager extends LoopWork, EngineObserver {
  readonly slots: readonly Slot[]
  /** Slots that can be given out now: none while the KV cells are used up. */
  readonly freeSlots: number
  /** Whether all slots share one pool of KV cells (`limits.kvTokens`). */
  readonly isPool: boolean
  /** How many tokens of a waiting sequence need not be computed if it is admitted now. */
  lookUp(sequence: Sequence): number
  /**
   * The running request that computes what this waiting sequence begins with, when waiting for that
   * and copying it is cheaper than computing it a second time.
   */
  producerOf(sequence: Sequence): PrefixProducer | undefined
  /** No request is to wait for what this sequence computes. */
  stopProducing(sequence: Sequence): void
  /** A sequence waits for a slot from now on. */
  onWaiting(sequence: Sequence): void
  /**
   * Makes room in the pool for a waiting sequence; false: it must wait until others have ended. Asked
   * where there is a pool.
   *
   * @param answerTokens - how many more tokens a sequence is expected to generate
   */
  admits(sequence: Sequence, answerTokens: (sequence: Sequence) => number): Promise<boolean>
  /** Makes room in the pool for this many tokens; false: running requests hold too much. */
  fits(count: number): Promise<boolean>
  /** The pool was used up, and a request lost its slot: none is admitted before another ends. */
  onOverflow(): void
  /**
   * Whether a waiting sequence can be given a slot without keeping requests that decode waiting for long;
   * otherwise what that needs is made ready beside their steps, and it is asked again before the next
   * one. Where nothing else can be computed (`insists`), only what is being read for it is waited for.
   */
  prepare(sequence: Sequence, insists: boolean): boolean
  /** Whether something is being read for requests that wait: its end wakes the loop. */
  readonly isReading: boolean
  /** Gives the sequence a free slot, with as much of its prefix as can be had without computing. */
  acquire(sequence: Sequence): Promise<void>
  /** The sequence has computed more of its tokens. */
  onAdvanced(sequence: Sequence): void
  /**
   * The slot of a running sequence holds drafts behind what was computed for it: keeps `length` tokens
   * of it, which the sequence has, and notes how many the backend really kept.
   */
  truncate(sequence: Sequence, length: number): void
  /**
   * Drops `discard` tokens after the first `keep` of a running sequence's slot, which nobody else may use
   * from then on.
   */
  shift(sequence: Sequence, keep: number, discard: number): void
  /**
   * Takes the slot back and keeps its tokens for reuse, if they may be shared. No request is to wait for
   * what the sequence would have computed.
   */
  release(sequence: Sequence, now: number): void
  /** Empties a slot without an owner. */
  evict(slot: Slot): Promise<void>
  /** Moves a running sequence into a free slot; returns whether that succeeded. */
  move(from: Slot, to: Slot): Promise<boolean>
  /** What each slot holds now. */
  statistics(): SlotStatistics[]
  /** The pool of KV cells; undefined where each slot has its own. */
  pool(): KvPoolStatistics | undefined
  /** What the tiers behind the slots hold; undefined without any. */
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
  /** Changes with what can be found, so that a look-up can be remembered until then. */
  readonly version: number
  /**
   * The slots without an owner, or of running sequences, that hold the most of the sequence's tokens, up
   * to `limit` of them.
   */
  matches(sequence: Sequence, kind: 'idle' | 'running', limit?: number): Iterable<Match>
  /** How many tokens an idle slot begins with that another slot has too. */
  sharedWithOthers(slot: Slot): number
  /** The sequence that is computing the longest prefix of this one, and how long that is. */
  planned(sequence: Sequence): PrefixProducer | undefined
  /** A sequence got the slot, with what it has computed. Sets `slot.chain`, so that it can be shared. */
  occupy(slot: Slot, sequence: Sequence): void
  /** The sequence in the slot has computed more. */
  grow(slot: Slot, sequence: Sequence): void
  /** What the sequence will compute can no longer be found. */
  unplan(sequence: Sequence): void
  /** What the slot holds can no longer be found. */
  drop(slot: Slot): void
  /** The slot has no owner any more and keeps what the sequence computed. Sets `slot.chain`. */
  keep(slot: Slot, sequence: Pick<Sequence, 'chain'>): void
}

/** The {@link PrefixIndex} of the KV cache manager. Experimental. */
export const PREFIX_INDEX = token<PrefixIndex>('PrefixIndex')
