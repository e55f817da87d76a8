import type { TokenId } from '@cllm/core'
import { RadixSort } from './radix-sort.js'
import { blockSize, leastLogit, type VocabularyScan } from '../scan/vocabulary-scan.js'

/**
 * The tokens that a draw can still choose. At first this is the whole vocabulary, without a list: the first step that
 * leaves tokens out lists the others, in the order of their ids. The lists are allocated once and used for every draw.
 */
export class Candidates {
  readonly #sort = new RadixSort()
  readonly #otherIds: Int32Array
  readonly #otherLogits: Float32Array
  /** The value of {@link counted} while tokens are masked; otherwise 0. */
  #masked = 0

  // Fields for speed; only the methods here set them.
  /** The number of tokens that are left. */
  size = 0
  /** The largest logit. */
  largest = -Infinity
  /** Whether no step has left out a token yet, so that the tokens are not listed. */
  isWhole = true
  /** Whether the tokens are listed and sorted, the likeliest first. */
  isSorted = false

  /** The ids of the tokens once they are listed: the first {@link size} entries. */
  readonly ids: Int32Array
  /** The logits of the listed tokens. */
  readonly logits: Float32Array
  /** Their weights or probabilities, only valid right after they were computed. */
  readonly weights: Float32Array

  constructor(readonly scan: VocabularyScan) {
    this.ids = scan.ids
    this.logits = scan.listed
    this.weights = scan.weights
    this.#otherIds = new Int32Array(scan.ids.length)
    this.#otherLogits = new Float32Array(scan.ids.length)
  }

  /**
   * The number of tokens that llama.cpp would count: it includes tokens left out by {@link mask}, until another step
   * leaves out more.
   */
  get counted(): number {
    return Math.max(this.size, this.#masked)
  }

  /** The likeliest token; in a tie the first. */
  get likeliest(): TokenId {
    if (!this.isWhole) return this.ids[this.logits.indexOf(this.largest)]!
    const block = this.scan.maxima.indexOf(this.largest)
    return this.scan.logits.indexOf(this.largest, block * blockSize)
  }

  /**
   * Begins with the whole vocabulary, with the logits that the scan has now.
   * @returns false if no token can be drawn
   */
  begin(): boolean {
    this.largest = this.scan.findLargest()
    this.isWhole = true
    this.isSorted = false
    this.#masked = 0
    this.size = this.scan.size
    return this.largest > -Infinity
  }

  /** Lists all tokens that can be drawn, in the order of their ids, unless tokens are listed already. */
  list(): void {
    if (this.isWhole) this.#collect(leastLogit)
  }

  /** Leaves out the tokens with a smaller logit, but counts them, as llama.cpp keeps them at −∞; keeps the order. */
  mask(logit: number): void {
    const { counted } = this
    this.keepFrom(logit)
    this.#masked = counted
  }

  /** Leaves out the tokens with a smaller logit; keeps the order. */
  keepFrom(logit: number): void {
    this.#masked = 0
    if (this.isWhole) return this.#collect(Math.max(logit, leastLogit))
    const { ids, logits } = this
    let kept = 0
    for (let index = 0; index < this.size; index++) {
      const value = logits[index]!
      if (!(value >= logit)) continue
      ids[kept] = ids[index]!
      logits[kept] = value
      kept += 1
    }
    this.size = kept
  }

  /** Lists all tokens of the vocabulary with at least this logit, whatever was listed before. */
  relist(logit: number): void {
    this.#collect(Math.max(logit, leastLogit))
  }

  /** Leaves the `count` likeliest tokens, sorted; in a tie those with the smaller ids. */
  keepTop(count: number): void {
    if (this.isWhole) this.relist(leastOf(this.scan, count, this.largest))
    this.sort()
    this.keepSorted(count)
  }

  /** Sorts all tokens. */
  sort(): void {
    this.list()
    if (!this.isSorted) this.#sort.sort(this.ids, this.logits, this.size)
    this.isSorted = true
  }

  /** Leaves only the first `count` tokens, which are sorted. */
  keepSorted(count: number): void {
    this.size = Math.min(count, this.size)
    this.#masked = Math.min(count, this.#masked)
    this.isSorted = true
  }

  /** Leaves out the first `count` tokens. */
  dropFirst(count: number): void {
    this.#masked = Math.max(0, this.#masked - count)
    this.ids.copyWithin(0, count, this.size)
    this.logits.copyWithin(0, count, this.size)
    this.size -= count
    this.#findLargest()
  }

  /** Leaves only the tokens at these places in the list, in this order. */
  keep(places: ArrayLike<number>, count: number): void {
    const { ids, logits } = this
    for (let index = 0; index < count; index++) {
      this.#otherIds[index] = ids[places[index]!]!
      this.#otherLogits[index] = logits[places[index]!]!
    }
    ids.set(this.#otherIds.subarray(0, count))
    logits.set(this.#otherLogits.subarray(0, count))
    this.size = count
    this.#masked = 0
    this.isSorted = false
    this.#findLargest()
  }

  #collect(from: number): void {
    this.size = this.scan.collect(from)
    this.isWhole = false
    this.isSorted = false
  }

  #findLargest(): void {
    let largest = -Infinity
    for (let index = 0; index < this.size; index++) {
      largest = Math.max(largest, this.logits[index]!)
    }
    this.largest = largest
  }
}

/** Distances below the largest logit that are tried one after the other until the tokens within suffice. */
export const distances = [1, 2, 3, 4.5, 6, 8, 11, 15, Infinity]

/** The greatest distance between logits, as a power of two. */
const widest = 30
const mostRounds = 8

/**
 * A logit that at least `count` entries of a vocabulary reach, and not many more if logits differ. For a small `count`
 * it counts blocks that reach it instead of tokens. −Infinity for all entries.
 */
function leastOf(scan: VocabularyScan, count: number, largest: number): number {
  const isFew = count * 4 <= scan.maxima.length
  const reachedAt = (distance: number): number =>
    isFew ? scan.countBlocks(largest - distance) : scan.countTokens(largest - distance)
  if (count * 2 > scan.size) return -Infinity
  const enough = (isFew ? 2 : 1.25) * count
  let [near, less, far, reached] = [0, 1, 1, 0]
  for (; (reached = reachedAt(far)) < count; far *= 2) {
    if (far > 2 ** widest) return -Infinity
    near = far
    less = Math.max(1, reached)
  }
  for (let round = 0; round < mostRounds && reached > enough; round++) {
    // interpolates as if counts grew exponentially with the distance
    const share = Math.log((1.1 * count) / less) / Math.log(reached / less)
    const middle = near + Math.min(0.9, Math.max(0.1, share)) * (far - near)
    const there = reachedAt(middle)
    if (there < count) [near, less] = [middle, Math.max(1, there)]
    else [far, reached] = [middle, there]
  }
  return largest - far
}

/**
 * Writes the probabilities of the listed candidates into their weights, in single precision and in the order of the
 * list, so that the sum rounds as llama.cpp's.
 * @returns the sum by which the weights were divided
 */
export function softmax(candidates: Candidates): number {
  const { scan, weights, size, largest } = candidates
  scan.weighListed(size, 1, largest)
  let total = 0
  for (let index = 0; index < size; index++) total = Math.fround(total + weights[index]!)
  for (let index = 0; index < size; index++) weights[index] = weights[index]! / total
  return total
}

/**
 * The entropy in nats of the probabilities that {@link softmax} wrote, rounded as llama.cpp does.
 * @param surprises - filled with the surprise of each candidate
 */
export function entropyOf({ weights, size }: Candidates, surprises?: Float32Array): number {
  let entropy = 0
  for (let index = 0; index < size; index++) {
    const probability = weights[index]!
    const surprise = Math.fround(-Math.log(probability))
    if (surprises !== undefined) surprises[index] = surprise
    // 0 × ∞ would make the sum NaN, as it does in llama.cpp
    if (probability > 0) entropy = Math.fround(entropy + Math.fround(probability * surprise))
  }
  return entropy
}
