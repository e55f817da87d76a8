import { inject, injectable } from 'tsyringe'
import type { EngineObserver, StepRecord } from '../../contracts/engine/engine-observer.js'
import { RunningSet } from '../requests/request-sets.js'
import { StepCostModel, workOf } from './pass-costs.js'
import { LinearFit } from './linear-fit.js'
import { token } from '../../tokens.js'

/** After a copy, or restoring, was passed over so many times, its cost counts as half of what it was. */
const timesUntilHalf = 32
/** Weight of one admission in the share of tokens found in the cache. */
const weight = 1 / 16

/** The {@link EngineCosts} that the engine's parts share. */
export const ENGINE_COSTS = token<EngineCosts>('EngineCosts')

/**
 * The costs that the engine's parts share, in milliseconds: the {@link StepCostModel} of its steps,
 * the costs of copies and of saved states, and the value of what a slot keeps.
 */
@injectable()
export class EngineCosts implements EngineObserver {
  /** What steps cost. */
  readonly steps = new StepCostModel()
  /** How long saving and restoring may take beside requests that decode. */
  readonly pauses: PauseBudget
  /** What saving and restoring slots costs. */
  readonly states = new StateCosts()
  /** Copies since the last step, which may have to wait for them, and how long the calls took. */
  #copies = 0
  #copyMs = 0
  /** The share of its cost that a copy still counts with, as it was passed over for it. */
  #trust = 1
  /** The share of a slot's tokens that later requests are likely to find there, 0 to 1. */
  reuseShare = 0.5

  constructor(@inject(RunningSet) running: RunningSet) {
    this.pauses = new PauseBudget(running)
  }

  /** What copying a slot adds to the next step. */
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

  /** Computing seemed cheaper than a copy. An estimate that is never tried again never changes. */
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

/** Saving adds at most this share of the longest recent step to the time between two tokens. */
const saveShare = 0.2
/** Restoring stands in for computing a part of a prompt, which takes a step of its own. */
const loadShare = 0.8
/** One pause of this share of what computing would take is better than all the chunks of that. */
const insteadShare = 0.1
/** The longest step counts for less with each later one. */
const memory = 0.995

/**
 * How long the engine may save and restore states between two steps while requests decode: a share of
 * the longest recent step, so that no token comes much later than others came anyway.
 */
export class PauseBudget {
  /** The longest recent step. */
  #longestMs = 0
  /** How long the engine has not computed since the last step. */
  #spentMs = 0

  /** @param running - without one that decodes nobody waits, and all may take its time */
  constructor(readonly running: Pick<RunningSet, 'isAnyDecoding'>) {}

  /** A step took this long. */
  onStep(durationMs: number): void {
    this.#longestMs = Math.max(durationMs, this.#longestMs * memory)
    this.#spentMs = 0
  }

  /** The engine did not compute for this long. */
  onPause(ms: number): void {
    this.#spentMs += ms
  }

  /** Whether there is time to save something. */
  canSave(ms: number): boolean {
    if (!this.running.isAnyDecoding) return true
    return this.#spentMs + ms <= saveShare * this.#longestMs
  }

  /** Whether there is time to restore something, instead of computing it for so long. */
  canLoad(ms: number, insteadMs: number): boolean {
    if (!this.running.isAnyDecoding) return true
    const longest = Math.max(loadShare * this.#longestMs, insteadShare * insteadMs)
    return this.#spentMs + ms <= longest
  }
}

const megabyte = 1e6
/** A call takes as long as this many bytes take. */
const callBytes = 250_000
/** So does what a file takes besides: a thread is told of it, and it is opened. */
const openBytes = 2_000_000
/** Milliseconds of a megabyte, before any was saved or restored, or read from a file. */
const guessedMs = 0.4
const guessedFileMs = 1
/** As many guesses are there at first. */
const guesses = 3
/** The cost is the median of this many observations. */
const remembered = 9
/** Megabytes of a state without tokens, and of each token: scaled by the first one. */
const sizePrior = [0.001, 0.03]

/**
 * Learns what it costs to save the state of a slot and to restore it, in milliseconds: a line through
 * the number of bytes. Its slope is the median of the last few, as one that is interrupted by another
 * process takes many times as long.
 */
export class StateCosts {
  readonly #save = new MedianRate()
  readonly #load = new MedianRate()
  readonly #read = new MedianRate(guessedFileMs, openBytes)
  readonly #size = new LinearFit({ prior: sizePrior, memory: 0.9, outlier: 3 })
  /** The share of its cost that restoring still counts with, as it was passed over for it. */
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

  /** Bytes that the state of a slot with this many tokens has. */
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

  /** Computing seemed cheaper than restoring. An estimate that is never tried again never changes. */
  onPassedOver(): void {
    this.#trust *= 0.5 ** (1 / timesUntilHalf)
  }
}

/** Milliseconds by bytes: so many for each, of which there are a few more than those of the state. */
class MedianRate {
  /** The last observations, milliseconds of a byte. */
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
