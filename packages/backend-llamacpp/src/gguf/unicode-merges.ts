import { toByteAlphabet } from './byte-alphabet.js'
import type { Merge } from './byte-pair-merges.js'

/** Characters to make, first and last code point of each range: alphabets, symbols, kana, ideographs, Hangul, emoji. */
const RANGES: readonly (readonly [first: number, last: number])[] = [
  [0x00a1, 0x07ff],
  [0x0900, 0x0e7f],
  [0x1e00, 0x2bff],
  [0x3000, 0x30ff],
  [0x4e00, 0x9fff],
  [0xac00, 0xd7a3],
  [0xff00, 0xffef],
  [0x1f300, 0x1faff],
]
const [FIRST_IDEOGRAPH, LAST_IDEOGRAPH] = [0x4e00, 0x9fff]

/**
 * Merges for what is not English: byte by byte to single characters, then pairs of ideographs without end. None of them
 * touches ASCII.
 */
export function* unicodeMerges(): Iterable<Merge> {
  for (const [first, last] of RANGES) {
    for (let code = first; code <= last; code++) {
      const bytes = toByteAlphabet(String.fromCodePoint(code))
      for (let length = 2; length <= bytes.length; length++) {
        yield [bytes.slice(0, length - 1), bytes.charAt(length - 1)]
      }
    }
  }
  for (let left = FIRST_IDEOGRAPH; left <= LAST_IDEOGRAPH; left++) {
    for (let right = FIRST_IDEOGRAPH; right <= LAST_IDEOGRAPH; right++) {
      yield [
        toByteAlphabet(String.fromCodePoint(left)),
        toByteAlphabet(String.fromCodePoint(right)),
      ]
    }
  }
}
