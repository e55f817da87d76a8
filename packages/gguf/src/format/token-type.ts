/** The kind of a vocabulary entry, numbered as in `tokenizer.ggml.token_type`. */
export const TokenType = {
  Normal: 1,
  Unknown: 2,
  Control: 3,
  UserDefined: 4,
  Unused: 5,
  Byte: 6,
} as const

/** One of the numbers of {@link TokenType}. */
export type TokenType = (typeof TokenType)[keyof typeof TokenType]
