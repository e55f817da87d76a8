import type { TokenId } from '@cllm/core'

/** What the breakers of DRY are looked up in. */
export interface BreakerVocabulary {
  /** The bytes of a token's text. */
  bytes(token: TokenId): Uint8Array
  /** The tokens of a text, in which nothing is special. */
  encode(text: string): readonly TokenId[]
}

/** Longer breakers are cut, in bytes, and what follows a breaker's first token, in tokens. */
const longestBreaker = 40
const longestTail = 20

const nothing: readonly TokenId[] = []
const encoder = new TextEncoder()
const decoder = new TextDecoder()

/**
 * Finds where texts can begin within tokens. llama.cpp searches the whole vocabulary for each request;
 * here only tokens that occur are looked at, and remembered.
 */
export class SequenceBreakers {
  readonly #vocabulary: BreakerVocabulary
  readonly #breakers: readonly Uint8Array[]
  readonly #tails = new Map<TokenId, readonly (readonly TokenId[])[]>()

  constructor(vocabulary: BreakerVocabulary, breakers: readonly string[]) {
    this.#vocabulary = vocabulary
    this.#breakers = breakers.map((text) => encoder.encode(text).subarray(0, longestBreaker))
  }

  /**
   * The tokens that must follow this one so that there is a breaker, one list for each way: an empty
   * one when the token itself has a breaker in it. No list when none begins in it.
   */
  tailsOf(token: TokenId): readonly (readonly TokenId[])[] {
    let tails = this.#tails.get(token)
    if (tails === undefined) {
      tails = this.#find(this.#vocabulary.bytes(token))
      this.#tails.set(token, tails)
    }
    return tails
  }

  #find(word: Uint8Array): (readonly TokenId[])[] {
    const tails = new Map<string, readonly TokenId[]>()
    for (const breaker of this.#breakers) {
      for (const rest of restsAfter(word, breaker)) {
        const text = decoder.decode(rest)
        const tail = rest.length === 0 ? nothing : this.#vocabulary.encode(text)
        const short = tail.slice(0, longestTail)
        tails.set(short.join(), short)
      }
    }
    return [...tails.values()]
  }
}

/** What is left of a breaker that is in a word, or that a word ends within. */
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
