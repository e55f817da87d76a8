import type { TokenDecoder, TokenId } from '@cllm/core'
import type { Vocabulary } from './vocabulary.js'

const space = 0x20
/** An incomplete character spans at most this many tokens. */
const overlap = 3

/**
 * Turns tokens into text, holding back incomplete characters. Bytes that are no UTF-8 become
 * U+FFFD.
 */
export class Decoder implements TokenDecoder {
  readonly #vocabulary: Vocabulary
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  #atStart: boolean
  readonly #marks: readonly string[]

  /** @param marks - texts in which control tokens are shown */
  constructor(
    vocabulary: Vocabulary,
    before: readonly TokenId[] = [],
    marks: readonly string[] = [],
  ) {
    this.#vocabulary = vocabulary
    this.#marks = marks
    this.#atStart = vocabulary.addsSpace && before.length === 0
    if (before.length > 0) this.#resume(before)
  }

  push(token: TokenId): string {
    let bytes = this.#vocabulary.bytes(token)
    if (this.#atStart && token !== this.#vocabulary.bos) {
      this.#atStart = false
      if (bytes[0] === space) bytes = bytes.subarray(1)
    }
    if (bytes.length === 0) return this.#marks.length === 0 ? '' : this.#shown(token)
    return this.#decoder.decode(bytes, { stream: true })
  }

  end(): string {
    return ''
  }

  #shown(token: TokenId): string {
    const text = this.#vocabulary.controlText(token)
    return text !== '' && this.#marks.some((mark) => mark.includes(text)) ? text : ''
  }

  #resume(before: readonly TokenId[]): void {
    const last: Uint8Array[] = []
    for (let index = before.length - 1; index >= 0 && last.length < overlap; index--) {
      const bytes = this.#vocabulary.bytes(before[index] ?? -1)
      if (bytes.length > 0) last.unshift(bytes)
    }
    for (const bytes of last) this.#decoder.decode(bytes, { stream: true })
  }
}
