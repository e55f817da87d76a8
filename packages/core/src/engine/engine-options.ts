/** Limits of an engine. */
export interface EngineOptions {
  /**
   * Requests that may wait, not counting those that free slots are there for; one more is refused
   * with `queue_full`. Default 1,024; with 0 a request is served at once or not at all.
   */
  readonly maxQueuedRequests: number
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
  requestTimeoutMs: undefined,
  policyPatienceMs: 30_000,
  isolateTenants: false,
})
