/** More of a request's prompt was computed; the first such event tells what need not be. */
export interface PromptProgress {
  readonly type: 'progress'
  /** Empty. */
  readonly text: ''
  /** Tokens of the prompt that are in the slot. */
  readonly processedTokens: number
  /** Those of them that were found there. */
  readonly cachedTokens: number
  readonly promptTokens: number
}
