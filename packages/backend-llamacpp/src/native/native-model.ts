/** How a reranker's two texts are joined: a query, and a document that is compared with it. */
export interface NativePairFormat {
  /** Tokens between the texts. */
  readonly between: readonly number[]
  /** Tokens behind both texts. */
  readonly after: readonly number[]
  /** A text with `{query}` and `{document}` to use instead, if the model has one. */
  readonly template: string | undefined
}

/** The functions of llama.cpp's model that are used here. A token id outside the vocabulary ends the process. */
export interface NativeModel {
  /** Adds neither a begin nor an end token. */
  tokenize(text: string, special: boolean): Uint32Array
  /** Bytes that are not valid UTF-8 become U+FFFD. */
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
  /** The tokens that mark the parts of a fill-in-the-middle prompt; −1 when there is none. */
  prefixToken(): number
  suffixToken(): number
  middleToken(): number
  /** How a reranker's texts are joined; the addon cannot tell. */
  pairFormat?(): NativePairFormat
  /** The number of tokens that sliding-window layers look back; 0: no layer has a window. The addon cannot tell. */
  slidingWindow?(): number
  /** Whether layers keep a recurrent state, from which no token can be removed. The addon cannot tell. */
  isRecurrent?(): boolean
  getTrainContextSize(): number
  getTotalParameters(): number
  getTotalSize(): number
}
