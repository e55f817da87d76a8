/** Limits of a front. */
export interface PlacingOptions {
  /** Milliseconds for which a request waits for a worker while there is none; default 30,000. */
  readonly patienceMs: number
  /** A request that loses this many workers fails: it may be what kills them. Default 10. */
  readonly maxMoves: number
}

/** The defaults of {@link PlacingOptions}. */
export const defaultPlacingOptions: PlacingOptions = Object.freeze({
  patienceMs: 30_000,
  maxMoves: 10,
})

/** Counters of a front. */
export interface PlacingCounts {
  /** Requests that were placed, moves included. */
  placed: number
  /** Requests that went on elsewhere, on a worker that computes the same numbers … */
  movedExactly: number
  /** … and on one that may differ in rounding. */
  movedInexactly: number
}
