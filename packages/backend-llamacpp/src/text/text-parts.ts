import type { TokenId } from '@cllm/core'
import type { NativeModel } from '../native/native-model.js'
import type { Vocabulary } from './vocabulary.js'

/** Characters that llama.cpp tokenizes in a millisecond or two. */
const usualLength = 2048
/** Behind a letter and before a space with a letter: no pre-tokenizer joins these. */
const gap = /(?<=\p{L}) (?=\p{L})/gu
const probe = 'The quick brown fox jumps over the lazy dog'

/**
 * Cuts long texts where the tokens of the parts are the tokens of the whole, so that tokenizing them
 * can be spread over time. Merges work on each side of a gap between words by themselves, unless the
 * vocabulary has tokens that cross one: then nothing is cut.
 */
export class TextParts {
  readonly #model: NativeModel
  readonly #addsSpace: boolean
  readonly #cuts: boolean

  constructor(model: NativeModel, vocabulary: Vocabulary) {
    this.#model = model
    this.#addsSpace = vocabulary.addsSpace
    this.#cuts = !vocabulary.joinsWords && this.#holds()
  }

  /** The tokens of a text, a part at a time. */
  *tokenize(text: string, special: boolean): Generator<TokenId[], void> {
    let start = 0
    for (let end = this.#cut(text, 0); end !== undefined; end = this.#cut(text, start)) {
      yield this.#tokens(text.slice(start, end), special)
      // A tokenizer that puts a space before each text adds the one that is left out here.
      start = this.#addsSpace ? end + 1 : end
    }
    if (start < text.length) yield this.#tokens(text.slice(start), special)
  }

  #tokens(text: string, special: boolean): TokenId[] {
    return Array.from(this.#model.tokenize(text, special))
  }

  #cut(text: string, start: number): number | undefined {
    if (!this.#cuts || text.length - start < 2 * usualLength) return undefined
    gap.lastIndex = start + usualLength
    return gap.exec(text)?.index
  }

  #holds(): boolean {
    const words = probe.split(' ')
    const parts = words.map((word, index) => (index > 0 && !this.#addsSpace ? ` ${word}` : word))
    const tokens = parts.flatMap((part) => this.#tokens(part, false))
    return tokens.join() === this.#tokens(probe, false).join()
  }
}
