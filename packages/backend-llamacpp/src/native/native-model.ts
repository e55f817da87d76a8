/** How a text and one that it is compared with are put together. */
export interface NativePairFormat {
  /** Tokens between them. */
  readonly between: readonly number[]
  /** Tokens behind both. */
  readonly after: readonly number[]
  /** A text with `{query}` and `{document}` instead, where the model has one. */
  readonly template: string | undefined
}

/** The parts of llama.cpp's model used here. An id outside the vocabulary ends the process. */
export interface NativeModel {
  /** Adds neither a begin nor an end token. */
  tokenize(text: string, special: boolean): Uint32Array
  /** Bytes that are no UTF-8 become U+FFFD. */
  detokenize(tokens: Uint32Array, special?: boolean): string
  getTokenString(token: number): string
  getTokenAttributes(token: number): number
  isEogToken(token: number): boolean
  getVocabularyType(): number
  shouldPrependBosToken(): boolean
  /** −1 when there is none. */
  tokenBos(): number
  /** −1 when there is none. */
  tokenEos(): number
  /** The marks of gaps; −1 when there is none. */
  prefixToken(): number
  suffixToken(): number
  middleToken(): number
  /** Of models that compare texts; the addon cannot tell. */
  pairFormat?(): NativePairFormat
  /** Tokens that sliding-window layers look back, 0: none has a window. The addon cannot tell. */
  slidingWindow?(): number
  /** Whether layers keep a state, from which no token can be taken off. The addon cannot tell. */
  isRecurrent?(): boolean
  getTrainContextSize(): number
  getTotalParameters(): number
  getTotalSize(): number
}
