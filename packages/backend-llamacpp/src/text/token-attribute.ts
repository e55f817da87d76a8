/** Bits of llama.cpp's token attributes. */
export const TokenAttribute = {
  Unknown: 1,
  Normal: 4,
  Control: 8,
  UserDefined: 16,
  Byte: 32,
  StripsLeft: 128,
  StripsRight: 256,
} as const

/** llama.cpp's kinds of vocabulary. */
export const VocabularyType = {
  None: 0,
  SentencePiece: 1,
  BytePair: 2,
  WordPiece: 3,
  Unigram: 4,
  Rwkv: 5,
  Plamo2: 6,
} as const
