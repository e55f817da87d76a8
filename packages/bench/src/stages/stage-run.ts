/** What one round of the work took at a stage; times in milliseconds. */
export interface StageRun {
  /** From the first request to the last token. */
  readonly wallMs: number
  /** Of that in native forward passes. */
  readonly decodeMs: number
  /** Of that in sampling. */
  readonly sampleMs: number
  readonly steps: number
}
