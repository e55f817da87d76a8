import { inject, injectable } from 'tsyringe'
import type { EngineObserver, StepRecord } from '../../contracts/engine/engine-observer.js'
import { RunningSet } from '../requests/request-sets.js'
import { StepCostModel, workOf } from './pass-costs.js'
import { LinearFit } from './linear-fit.js'
import { token } from '../../tokens.js'

/** After this many rejections as too slow, the estimated cost of copying or restoring counts half. */
const timesUntilHalf = 32
/** The weight of one admission in `reuseShare`. */
const weight = 1 / 16

/** The {@link EngineCosts} that the engine's parts share. */
export const ENGINE_COSTS = token<EngineCosts>('EngineCosts')

/**
 * The learned costs that the engine's parts share, in milliseconds: of steps ({@link StepCostModel}), of copies between
 * slots and of saved states; and how often cached tokens are reused.
 */
@injectable()
export class EngineCosts implements EngineObserver {
  /** The costs of steps. */
  readonly steps = new StepCostModel()
  /** How long saving and restoring may delay decoding requests. */
  readonly pauses: PauseBudget
  /** The costs of saving and restoring slots. */
  readonly states = new StateCosts()
  /** Copies since the last step; the next step may have to wait for them. */
  #copies = 0
  /** Milliseconds that the calls of these copies took. */
  #copyMs = 0
  /** The factor on the estimated cost of a copy, lowered by each rejection. */
  #trust = 1
  /** The share of a request's tokens that is found in the cache, 0 to 1, as learned from recent admissions. */
  reuseShare = 0.5

  constructor(@inject(RunningSet) running: RunningSet) {
    this.pauses = new PauseBudget(running)
  }

  /** Milliseconds that copying a slot adds to the next step. */
  get copyMs(): number {
    return this.#trust * this.steps.copyMs
  }

  /** A request was admitted that found this share of its tokens in the cache. */
  onReuse(share: number): void {
    this.reuseShare += weight * (share - this.reuseShare)
  }

  /** A copy was made; the call took this long. */
  onCopy(ms: number): void {
    this.#copies++
    this.#copyMs += ms
    this.#trust = 1
  }

  /** Computing seemed cheaper than a copy. Lowers the estimate, so that a wrong one is tried again some time. */
  onCopyPassedOver(): void {
    this.#trust *= 0.5 ** (1 / timesUntilHalf)
  }

  /** Learns from a step, unless it was retried and its duration says nothing. */
  onStep({ parts, durationMs, isWhole }: StepRecord): void {
    this.pauses.onStep(durationMs)
    if (isWhole) this.steps.onWork(workOf(parts, this.#copies), durationMs + this.#copyMs)
    this.#copies = 0
    this.#copyMs = 0
  }
}

/** Saving may lengthen the time between two tokens by at most this share of the longest recent step. */
const saveShare = 0.2
/** The same for restoring, which replaces a step that would compute a part of the prompt. */
const loadShare = 0.8
/** Restoring may also take this share of the time that computing would take: one pause is better than all its chunks. */
const insteadShare = 0.1
/** The factor by which the longest step decays with each later step. */
const memory = 0.995

/**
 * How long the engine may save and restore states between two steps while requests decode: a share of the longest
 * recent step, so that the pauses between tokens hardly grow.
 */
export class PauseBudget {
  /** The longest recent step. */
  #longestMs = 0
  /** Milliseconds spent on saving and restoring since the last step. */
  #spentMs = 0

  /** @param running - while none of these requests decodes, there is no limit */
  constructor(readonly running: Pick<RunningSet, 'isAnyDecoding'>) {}

  /** A step took this long. */
  onStep(durationMs: number): void {
    this.#longestMs = Math.max(durationMs, this.#longestMs * memory)
    this.#spentMs = 0
  }

  /** Saving or restoring took this long. */
  onPause(ms: number): void {
    this.#spentMs += ms
  }

  /** Whether saving may take this long. */
  canSave(ms: number): boolean {
    if (!this.running.isAnyDecoding) return true
    return this.#spentMs + ms <= saveShare * this.#longestMs
  }

  /** Whether restoring may take `ms` where computing would take `insteadMs`. */
  canLoad(ms: number, insteadMs: number): boolean {
    if (!this.running.isAnyDecoding) return true
    const longest = Math.max(loadShare * this.#longestMs, insteadShare * insteadMs)
    return this.#spentMs + ms <= longest
  }
}

const megabyte = 1e6
/** The fixed cost of a call, as the number of bytes that take as long. */
const callBytes = 250_000
/** The fixed cost of reading a file (message to the thread, opening), as the number of bytes that take as long. */
const openBytes = 2_000_000
/** Milliseconds per megabyte of saving and restoring, before any was measured. */
const guessedMs = 0.4
/** Milliseconds per megabyte of reading files, before any was measured. */
const guessedFileMs = 1
/** The weight of the guess, as a number of observations. */
const guesses = 3
/** The cost is the median of this many observations. */
const remembered = 9
/** The prior of a state's size in megabytes: of an empty state, and per token. The first state scales both. */
const sizePrior = [0.001, 0.03]

/**
 * Learns the milliseconds that saving and restoring the state of a slot take: a fixed part, and a rate per byte. The rate
 * is the median of recent ones, as a call that another process interrupts takes many times as long.
 */
export class StateCosts {
  readonly #save = new MedianRate()
  readonly #load = new MedianRate()
  readonly #read = new MedianRate(guessedFileMs, openBytes)
  readonly #size = new LinearFit({ prior: sizePrior, memory: 0.9, outlier: 3 })
  /** The factor on the estimated cost of restoring, lowered by each rejection. */
  #trust = 1

  /** Milliseconds that saving this many bytes takes. */
  saveMs(bytes: number): number {
    return this.#save.predict(bytes)
  }

  /** Milliseconds that restoring this many bytes takes. */
  loadMs(bytes: number): number {
    return this.#trust * this.#load.predict(bytes)
  }

  /** Milliseconds that reading this many bytes of a file takes. */
  readMs(bytes: number): number {
    return this.#trust * this.#read.predict(bytes)
  }

  /** The bytes of the state of a slot with this many tokens. */
  bytesOf(tokens: number): number {
    return this.#size.predict([1, tokens]) * megabyte
  }

  /** The state of a slot was saved. */
  onSaved(tokens: number, bytes: number, ms: number): void {
    this.#size.observe([1, tokens], bytes / megabyte)
    this.#save.observe(bytes, ms)
  }

  /** A state was restored. */
  onLoaded(bytes: number, ms: number): void {
    this.#trust = 1
    this.#load.observe(bytes, ms)
  }

  /** A file was read. */
  onRead(bytes: number, ms: number): void {
    this.#read.observe(bytes, ms)
  }

  /** Computing seemed cheaper than restoring. Lowers the estimate, so that a wrong one is tried again some time. */
  onPassedOver(): void {
    this.#trust *= 0.5 ** (1 / timesUntilHalf)
  }
}

/** Predicts milliseconds as a rate times the number of bytes plus a fixed number of bytes. */
class MedianRate {
  /** Recent observations, in milliseconds per byte. */
  readonly #rates: number[]
  #median: number

  constructor(
    guess = guessedMs,
    private readonly fixedBytes = callBytes,
  ) {
    this.#median = guess / megabyte
    this.#rates = Array.from({ length: guesses }, () => this.#median)
  }

  predict(bytes: number): number {
    return this.#median * (bytes + this.fixedBytes)
  }

  observe(bytes: number, ms: number): void {
    this.#rates.push(ms / (bytes + this.fixedBytes))
    if (this.#rates.length > remembered) this.#rates.shift()
    const sorted = this.#rates.toSorted((a, b) => a - b)
    this.#median = sorted[Math.floor((sorted.length - 1) / 2)] ?? this.#median
  }
}
