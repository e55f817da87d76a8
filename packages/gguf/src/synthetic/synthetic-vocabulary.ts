import { readFileSync } from 'node:fs'
import { brotliDecompressSync } from 'node:zlib'
import { toByteAlphabet } from '@cllm/core'
import {
  bytePairVocabulary,
  type BytePairVocabulary,
  learnMerges,
  type Merge,
} from './byte-pair-vocabulary.js'
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

/**
 * A written form of a word: its prefix, its case, and how many of 1,000 occurrences have this
 * form.
 */
interface Form {
  readonly prefix: string
  readonly write: (word: string) => string
  readonly share: number
}

const asIs = (word: string): string => word
const capitalized = (word: string): string => word.charAt(0).toUpperCase() + word.slice(1)
const upperCase = (word: string): string => word.toUpperCase()

const forms: readonly Form[] = [
  { prefix: ' ', write: asIs, share: 800 },
  { prefix: '', write: asIs, share: 80 },
  { prefix: ' ', write: capitalized, share: 120 },
  { prefix: '', write: capitalized, share: 50 },
  { prefix: ' ', write: upperCase, share: 5 },
  { prefix: '', write: upperCase, share: 5 },
  ...['-', '(', '_', '.', '/'].map((prefix) => ({ prefix, write: asIs, share: 4 })),
  ...['"', '\t'].map((prefix) => ({ prefix, write: capitalized, share: 4 })),
]

/**
 * Forms rarer than one occurrence are left out: they would take most of the time and change
 * nothing.
 */
const rarest = 1000
/** Occurrences added to a technical word's count in film subtitles. */
const technicalCount = 300
/** Of 1,000 occurrences of a technical word, how many are in each form, at least. */
const technicalShare = 50

/** Occurrences of the most frequent punctuation mark; the others follow by rank. */
const punctuationCount = 500_000_000
/** In approximate order of frequency. */
const punctuation =
  `. , - ' " ? ! : ; ( ) ." ," ... -- ?" !" ). ), \u2019 \u201c \u201d \u2014 \u2013 / " ' ` +
  '* ** # ## ### `` ``` _ __ { } [ ] () (); = == === != <= >= => -> :: // /// /* */ && || += ++ ' +
  `| < > </ /> (" (' [" "] ") ') ": ", "," ":" '' "" + & % $ @ \\ ` +
  '}; }, ], [] ${ `. `, `: ](  :// *** **: --- ---- -------- ---------------- ==== ======== **** ' +
  '//// ....  ....... \u2026 \u2022 \u2022 \u2192 \u00a3 \u20ac \u00b0 \u00d7'
const longestRun = 64

/**
 * English text as a multiset of pieces, split like Qwen's pre-tokenizer: words with their prefixes,
 * runs of punctuation and white space, contractions; in byte alphabet. Word frequencies are from
 * American film subtitles (SUBTLEX-US).
 */
function englishPieces(): Map<string, number> {
  const pieces = new Map<string, number>()
  const add = (piece: string, count: number): void => {
    const key = toByteAlphabet(piece)
    pieces.set(key, (pieces.get(key) ?? 0) + Math.round(count))
  }
  for (const { word, count } of subtitleWords()) {
    for (const { prefix, write, share } of forms) {
      if (count * share >= rarest) add(prefix + write(word), count * share)
    }
  }
  // of programming, mathematics and technical prose, rare or missing in film subtitles
  for (const word of wordsIn('technical-words.txt')) {
    for (const { prefix, write, share } of forms) {
      add(prefix + write(word), technicalCount * Math.max(share, technicalShare))
    }
  }
  for (const ending of ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d"]) add(ending, punctuationCount)
  punctuation.split(/ +/).forEach((mark, rank) => {
    for (const before of ['', ' ']) {
      add(before + mark, punctuationCount / (rank + 1))
      for (const after of ['\n', '\n\n'])
        add(before + mark + after, punctuationCount / (rank + 1) / 5)
    }
  })
  for (let length = 2; length <= longestRun; length++) {
    for (const white of [' ', '\n', '\t']) add(white.repeat(length), punctuationCount / length ** 2)
  }
  return pieces
}

/**
 * Frequent English words as byte-level BPE sees them (a leading space is `Ġ`), the frequent ones
 * first and weighted by rank (Zipf's law): enough to learn a small vocabulary from.
 */
function commonWords(): Map<string, number> {
  const words = wordsIn('common-words.txt')
  return new Map(words.map((word, rank) => [`Ġ${word}`, Math.ceil(1000 / (rank + 1))]))
}

/** Words and how often each occurs; `pack-words.mjs` has written the file. */
export function subtitleWords(): readonly { readonly word: string; readonly count: number }[] {
  const lines = brotliDecompressSync(readData('subtitle-words.br')).toString('utf8').split('\n')
  return lines.map((line) => {
    const space = line.lastIndexOf(' ')
    return { word: line.slice(0, space), count: Number(line.slice(space + 1)) }
  })
}

const readData = (name: string): Buffer =>
  readFileSync(new URL(`../../data/${name}`, import.meta.url))

const wordsIn = (name: string): readonly string[] => readData(name).toString().trim().split(/\s+/)
