/** One tier of what slots held, since the start. */
export interface TierStatistics {
  /** States in it. */
  readonly states: number
  readonly bytes: number
  /** Most bytes. */
  readonly limitBytes: number
  /** Requests that began with a state of it. */
  readonly hits: number
  /** Tokens that they had of it. */
  readonly hitTokens: number
  /** Requests of which nothing was found, in no slot either. */
  readonly misses: number
  /** States that were put into it. */
  readonly saved: number
  /** Those that were not, as requests beside it would have waited too long. */
  readonly skipped: number
  /** States that could not be saved or restored. */
  readonly failed: number
  /** States that were dropped to make room. */
  readonly evictions: number
  /** Milliseconds that saving took, and restoring. */
  readonly saveMs: number
  readonly loadMs: number
}

/** The tiers behind the slots. */
export interface CacheStatistics {
  /** States in RAM. */
  readonly ram: TierStatistics
  /** States in files, where there are any; what they have to do with requests is counted here alone. */
  readonly disk?: TierStatistics
  /** Milliseconds of the longest time that requests which decode waited for a slot to be filled. */
  readonly longestPauseMs: number
}

/** A saved state. */
export interface CachedState {
  readonly tier: 'ram' | 'disk'
  readonly tokens: number
  readonly bytes: number
  /** Whether it is a checkpoint, and not all that a slot held. */
  readonly checkpoint: boolean
  /** Whether it is dropped for no other. */
  readonly pinned: boolean
}
