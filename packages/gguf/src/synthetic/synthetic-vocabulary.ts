import { toByteAlphabet } from '@cllm/core'
import { learnMerges, type Merge } from './byte-pair-merges.js'
import { bytePairVocabulary, type BytePairVocabulary } from './byte-pair-vocabulary.js'
import { commonWords, englishPieces } from './english-pieces.js'
import { type SyntheticModelName, syntheticShapes } from './synthetic-shapes.js'

/**
 * A byte-level BPE vocabulary of the size and layout of the imitated model's. English text takes
 * about as many tokens as with the original (measured for Qwen3's: within 10 % on prose,
 * verse, chat and technical text); the share of the other languages is filled with their
 * characters.
 */
export function syntheticVocabulary(like: SyntheticModelName): BytePairVocabulary {
  const { vocabulary, specialsAt } = syntheticShapes[like]
  return bytePairVocabulary(allMerges(like), vocabulary, specialsAt)
}

function* allMerges(like: SyntheticModelName): Iterable<Merge> {
  const { english, merges } = syntheticShapes[like]
  yield* learnMerges(english === 'common words' ? commonWords() : englishPieces(), merges)
  yield* unicodeMerges()
}

/**
 * Characters to make, first and last code point of each range: alphabets, symbols, kana,
 * ideographs, Hangul, emoji.
 */
const ranges: readonly (readonly [first: number, last: number])[] = [
  [0x00a1, 0x07ff],
  [0x0900, 0x0e7f],
  [0x1e00, 0x2bff],
  [0x3000, 0x30ff],
  [0x4e00, 0x9fff],
  [0xac00, 0xd7a3],
  [0xff00, 0xffef],
  [0x1f300, 0x1faff],
]
const [firstIdeograph, lastIdeograph] = [0x4e00, 0x9fff]

/**
 * An endless sequence of merges for other languages: from bytes to single characters, then pairs of
 * ideographs. No merge contains ASCII.
 */
function* unicodeMerges(): Iterable<Merge> {
  for (const [first, last] of ranges) {
    for (let code = first; code <= last; code++) {
      const bytes = toByteAlphabet(String.fromCodePoint(code))
      for (let length = 2; length <= bytes.length; length++) {
        yield [bytes.slice(0, length - 1), bytes.charAt(length - 1)]
      }
    }
  }
  for (let left = firstIdeograph; left <= lastIdeograph; left++) {
    for (let right = firstIdeograph; right <= lastIdeograph; right++) {
      yield [
        toByteAlphabet(String.fromCodePoint(left)),
        toByteAlphabet(String.fromCodePoint(right)),
      ]
    }
  }
}
