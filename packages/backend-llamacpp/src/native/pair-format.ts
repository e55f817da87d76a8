/** How a text and one that it is compared with are put together. */
export interface NativePairFormat {
  /** Tokens between them. */
  readonly between: readonly number[]
  /** Tokens behind both. */
  readonly after: readonly number[]
  /** A text with `{query}` and `{document}` instead, where the model has one. */
  readonly template: string | undefined
}
