/** What learns while it runs, and can go on in a later process from where it was. */
export interface Learner {
  /** What it has learned, as JSON. Undefined: nothing yet. Default: it never learns anything. */
  learned?(): unknown
  /**
   * Starts from what an equal part learned in an earlier process on this machine: called once, before
   * anything else. May throw where it does not fit, and then goes on without.
   */
  recall?(learned: unknown): void
}

/** Keeps what an engine has learned for the next start of an equal one. */
export interface LearnedStore {
  /** What was kept last. It comes from outside, and may be anything. */
  readonly known: unknown
  /** Keeps this from now on. Never rejects. */
  keep(learned: unknown): Promise<void>
}
