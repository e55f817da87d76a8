/** Limits of an engine. */
export interface EngineOptions {
  /**
   * Requests that may wait, not counting those that free slots are there for; one more is refused
   * with `queue_full`. Default 1,024; with 0 a request is served at once or not at all.
   */
  readonly maxQueuedRequests: number
  /**
   * Tokens that the prompts of waiting requests may have together; one that would make them more is
   * refused with `queue_full`, unless nobody else waits. Default: no limit.
   */
  readonly maxQueuedTokens: number | undefined
  /**
   * Milliseconds that a request may have to wait for its slot, by prediction; one that would wait
   * longer is refused with `wait_too_long`. Default: no limit.
   */
  readonly maxQueueWaitMs: number | undefined
  /** Milliseconds from arrival to end of a request that sets none of its own; default: no limit. */
  readonly requestTimeoutMs: number | undefined
  /**
   * How long requests may wait, in a row, while the policy runs nobody, before it counts as failed
   * and the fallback policy takes over. Milliseconds, default 30,000; without a fallback policy it
   * means nothing.
   */
  readonly policyPatienceMs: number
  /**
   * Whether computed prefixes are reused within a tenant only, so that none can tell by the time of
   * its first token what others have asked. Default false.
   */
  readonly isolateTenants: boolean
}

/** The defaults of {@link EngineOptions}. */
export const defaultEngineOptions: EngineOptions = Object.freeze({
  maxQueuedRequests: 1024,
  maxQueuedTokens: undefined,
  maxQueueWaitMs: undefined,
  requestTimeoutMs: undefined,
  policyPatienceMs: 30_000,
  isolateTenants: false,
})
