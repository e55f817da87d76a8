import type { SamplingParams, TokenId } from '@cllm/core'
import { leastLogit } from '../scan/vocabulary-scan.js'
import type { LogitChange } from './draws.js'

const { fround } = Math

/** Makes the latest tokens less likely: llama.cpp's `penalties`, in single precision like the original. */
export function penalties(params: SamplingParams): LogitChange {
  const repetition = fround(params.repetitionPenalty)
  const presence = fround(params.presencePenalty)
  const frequency = fround(params.frequencyPenalty)
  const counts = new Map<TokenId, number>()
  return (logits, history) => {
    counts.clear()
    for (let at = Math.max(0, history.length - params.penaltyLastN); at < history.length; at++) {
      const token = history[at]!
      counts.set(token, (counts.get(token) ?? 0) + 1)
    }
    for (const [token, count] of counts) {
      const logit = logits[token]!
      // dividing a negative logit would increase it
      const repeated = fround(logit <= 0 ? logit * repetition : logit / repetition)
      logits[token] = repeated - fround(fround(count * frequency) + presence)
    }
  }
}

/**
 * Adds to the logits of single tokens.
 * @param tokens - tokens of the vocabulary
 * @param biases - one bias for each token
 */
export function addBiases(
  logits: Float32Array,
  tokens: ArrayLike<number>,
  biases: ArrayLike<number>,
): void {
  for (let index = 0; index < tokens.length; index++) {
    const token = tokens[index]!
    logits[token] = Math.min(-leastLogit, logits[token]! + fround(biases[index]!))
  }
}

const allOfWord = 0xffff_ffff

/** Sets the logits of all tokens whose bit in the mask is 0 to −∞. */
export function allowOnly(logits: Float32Array, mask: Uint32Array): void {
  for (let word = 0, next = 1; word < mask.length; word = next++) {
    const bits = mask[word]!
    if (bits === allOfWord) continue
    if (bits !== 0) {
      for (let bit = 0; bit < 32; bit++) {
        if (((bits >>> bit) & 1) === 0) logits[32 * word + bit] = -Infinity
      }
      continue
    }
    while (mask[next] === 0) next++
    logits.fill(-Infinity, 32 * word, 32 * next)
  }
}

/** The logarithm of the largest float. */
const mostLog = 88.7228391

/**
 * DRY ("don't repeat yourself"): makes tokens less likely that would continue a repetition of the latest tokens; the
 * longer the repetition, the less likely. llama.cpp's `dry`.
 */
export function dry(params: SamplingParams, vocabulary: BreakerVocabulary): LogitChange {
  const multiplier = fround(params.dryMultiplier)
  const base = fround(params.dryBase)
  const { dryAllowedLength: allowed, dryPenaltyLastN: window } = params
  const mostExponent = base > 1.000001 ? Math.trunc(mostLog / Math.log(base)) : 0
  const breakers = new SequenceBreakers(vocabulary, params.drySequenceBreakers)
  /** For each distance from the end: how many tokens up to there equal the last tokens. */
  let repeats = new Int32Array(0)
  /** For each token that would continue a repetition: the length of the longest such repetition. */
  const longest = new Map<TokenId, number>()
  return (logits, history) => {
    const count = Math.min(history.length, window)
    if (count <= allowed) return
    const limit = breakers.limit(history, count)
    if (limit < allowed) return
    if (repeats.length < count) repeats = new Int32Array(2 * count)
    findRepeats(repeats, history, count, limit)
    longest.clear()
    const end = history.length - 1
    for (let at = 1; at < count; at++) {
      const length = repeats[at]!
      if (length < allowed) continue
      const token = history[end - at + 1]!
      longest.set(token, Math.max(length, longest.get(token) ?? length))
    }
    for (const [token, length] of longest) {
      if (breakers.tailsOf(token).some((tail) => tail.length === 0)) continue
      const exponent = length - allowed
      const power = mostExponent > 0 && exponent > mostExponent ? mostExponent : exponent
      logits[token] = logits[token]! - fround(multiplier * Math.pow(base, power))
    }
  }
}

/** The Z-algorithm over the tokens in reverse order; `repeats[k]` becomes the Z-value of distance k. */
function findRepeats(
  repeats: Int32Array,
  history: readonly TokenId[],
  count: number,
  limit: number,
): void {
  const end = history.length - 1
  let left = 0
  let right = 0
  for (let at = 1; at < count; at++) {
    let length = 0
    const isInside = at <= right
    if (isInside && repeats[at - left]! < right - at + 1) {
      repeats[at] = Math.min(repeats[at - left]!, limit)
      continue
    }
    if (isInside) length = right + 1 - at
    while (at + length < count && history[end - length] === history[end - at - length]) length += 1
    repeats[at] = Math.min(length, limit)
    if (!isInside && length === 0) continue
    left = at
    right = at + length - 1
  }
}

/** The vocabulary in which DRY's sequence breakers are looked up. */
export interface BreakerVocabulary {
  /** The bytes of a token's text. */
  bytes(token: TokenId): Uint8Array
  /** The tokens of a text, none of which is a special token. */
  encode(text: string): readonly TokenId[]
}

/** The most bytes of a breaker, and the most tokens behind a breaker's first one; the rest is cut off. */
const longestBreaker = 40
const longestTail = 20

const nothing: readonly TokenId[] = []
const encoder = new TextEncoder()
const decoder = new TextDecoder()

/**
 * Finds the sequence breakers in tokens. llama.cpp searches the whole vocabulary for each request; this only looks at
 * tokens that occur, and caches the results.
 */
export class SequenceBreakers {
  readonly #breakers: readonly Uint8Array[]
  readonly #tails = new Map<TokenId, readonly (readonly TokenId[])[]>()

  constructor(
    private readonly vocabulary: BreakerVocabulary,
    breakers: readonly string[],
  ) {
    this.#breakers = breakers.map((text) => encoder.encode(text).subarray(0, longestBreaker))
  }

  /**
   * The lists of tokens that complete a breaker which begins in this token: an empty list if the token contains a whole
   * breaker, and no list if no breaker begins in it.
   */
  tailsOf(token: TokenId): readonly (readonly TokenId[])[] {
    // without a closure, as this runs for each token of the history at each draw
    const known = this.#tails.get(token)
    if (known !== undefined) return known
    const tails = this.#find(this.vocabulary.bytes(token))
    this.#tails.set(token, tails)
    return tails
  }

  /** The number of tokens behind the latest breaker, at most `count`. */
  limit(history: readonly TokenId[], count: number): number {
    const end = history.length - 1
    for (let distance = 0; distance < count; distance++) {
      let longest = -1
      for (const tail of this.tailsOf(history[end - distance]!)) {
        const isThere =
          tail.length <= distance &&
          tail.every((token, index) => token === history[end - distance + 1 + index])
        if (isThere) longest = Math.max(longest, tail.length)
      }
      if (longest >= 0) return distance - longest
    }
    return count
  }

  #find(word: Uint8Array): (readonly TokenId[])[] {
    const tails = new Map<string, readonly TokenId[]>()
    for (const breaker of this.#breakers) {
      for (const rest of restsAfter(word, breaker)) {
        const text = decoder.decode(rest)
        const tail = rest.length === 0 ? nothing : this.vocabulary.encode(text)
        const short = tail.slice(0, longestTail)
        tails.set(short.join(), short)
      }
    }
    return [...tails.values()]
  }
}

/** The rests of a breaker after a word: empty if the word contains it, and one for each way to begin it at the end. */
function restsAfter(word: Uint8Array, breaker: Uint8Array): Uint8Array[] {
  const rests: Uint8Array[] = []
  for (let start = 0; start < word.length; start++) {
    let length = 0
    while (
      length < breaker.length &&
      start + length < word.length &&
      word[start + length] === breaker[length]
    ) {
      length += 1
    }
    if (length === breaker.length) return [breaker.subarray(length)]
    if (length > 0 && start + length === word.length) rests.push(breaker.subarray(length))
  }
  return rests
}
