import { z } from 'zod'
import type { Drafter, Proposal, Proposer } from '../../contracts/model/proposer.js'
import type { TokenId } from '../../contracts/model/tokenizer.js'
import { defineProposer } from './define-proposer.js'
import { NgramIndex } from './ngram-index.js'

/** A match is followed back no further than this. */
const longestMatch = 64
const nothing: Proposal = Object.freeze({ tokens: Object.freeze([]) })

/** Which kind of guess a match of this many tokens is: the longer, the likelier it goes on. */
function kindOf(matched: number): number {
  return matched < 5 ? matched - 1 : Math.min(11, 2 + Math.floor(2 * Math.log2(matched / 2)))
}

/**
 * Guesses that the text goes on as it did where its last tokens were before, in prompt or answer.
 * Prompt lookup decoding: Saxena, 2023.
 */
class NgramDrafter implements Drafter {
  readonly #indexes: readonly NgramIndex[]
  #known = 0

  constructor(longest: number, shortest: number) {
    const lengths = Array.from({ length: longest - shortest + 1 }, (_, index) => longest - index)
    this.#indexes = lengths.map((length) => new NgramIndex(length))
  }

  propose(tokens: readonly TokenId[], most: number): Proposal {
    const end = tokens.length
    this.#learn(tokens, end - 1)
    let best = 0
    let matched = 0
    for (const index of this.#indexes) {
      const found = index.find(tokens, end)
      if (found === undefined) continue
      const length = matchLength(tokens, found, end)
      if (length < index.length) continue
      best = found
      matched = length
      break
    }
    if (matched === 0) return nothing
    const guess: TokenId[] = []
    for (let at = best; guess.length < most; at++) guess.push(tokens[at] ?? guess[at - end] ?? -1)
    return { tokens: guess, kind: kindOf(matched) }
  }

  /** Adds what ends before `end` or there: not what is looked up, which would find itself. */
  #learn(tokens: readonly TokenId[], end: number): void {
    for (const index of this.#indexes) {
      for (let at = this.#known + 1; at <= end; at++) index.add(tokens, at)
    }
    this.#known = Math.max(this.#known, end)
  }
}

/** How many tokens before both ends are the same. */
function matchLength(tokens: readonly TokenId[], found: number, end: number): number {
  let length = 0
  while (length < longestMatch && length < found) {
    if (tokens[found - 1 - length] !== tokens[end - 1 - length]) break
    length++
  }
  return length
}

/** The built-in proposer. */
export const ngramProposer = defineProposer({
  name: 'ngram',
  doc: 'Looks the last tokens up in prompt and answer and guesses that the text goes on as it did there.',
  options: z.object({
    longest: z.int().min(1).max(8).default(4).describe('Tokens that are looked up at first.'),
    shortest: z
      .int()
      .min(1)
      .max(8)
      .default(2)
      .describe('Tokens that are looked up at last, when more were not found.'),
  }),
  create({ longest, shortest }): Proposer {
    return { begin: () => new NgramDrafter(Math.max(longest, shortest), shortest) }
  },
})
