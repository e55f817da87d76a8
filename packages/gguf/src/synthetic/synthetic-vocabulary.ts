import { learnMerges } from './byte-pair-merges.js'
import type { Merge } from './byte-pair-merges.js'
import { bytePairVocabulary } from './byte-pair-vocabulary.js'
import type { BytePairVocabulary } from './byte-pair-vocabulary.js'
import { commonWords, englishPieces } from './english-pieces.js'
import { syntheticShapes } from './synthetic-shapes.js'
import type { SyntheticModelName } from './synthetic-shapes.js'
import { unicodeMerges } from './unicode-merges.js'

const qwen3 = { pieces: englishPieces, merges: 90_000 }
const tiny = { pieces: commonWords, merges: 400 }

/** The training text for the English part of each vocabulary, and its number of merges. */
const english = {
  'qwen3-0.6b': qwen3,
  'qwen3-8b': qwen3,
  'qwen3-30b-a3b': qwen3,
  'lfm2-350m': { pieces: englishPieces, merges: 45_000 },
  tiny,
  'tiny-hybrid': tiny,
  'tiny-moe': tiny,
} as const satisfies Record<
  SyntheticModelName,
  { readonly pieces: () => ReadonlyMap<string, number>; readonly merges: number }
>

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
  const { pieces, merges } = english[like]
  yield* learnMerges(pieces(), merges)
  yield* unicodeMerges()
}
