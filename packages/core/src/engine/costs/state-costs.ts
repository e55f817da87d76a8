import { LinearFit } from './linear-fit.js'

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
/** After this many times that restoring was passed over, its cost counts as half of what it was. */
const loadsUntilHalf = 32
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
    this.#trust *= 0.5 ** (1 / loadsUntilHalf)
  }
}

class MedianRate {
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
