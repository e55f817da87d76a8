/** What a piece of text brought a call whose arguments come. */
export interface CallProgress {
  /** More of the arguments, as JSON. */
  readonly text: string
  /** What follows the call, once it is over. */
  readonly rest?: string
}

/** Reads the arguments of one call in pieces. */
export interface CallReader {
  push(piece: string): CallProgress
  /** The last piece when the answer is over. */
  end(): CallProgress
  /** Whether it was read to its end. */
  readonly isWhole: boolean
}
