/** Limits of an engine. */
export interface EngineOptions {
  /** Requests that may wait; one more is refused with `queue_full`. Default 1,024. */
  readonly maxQueuedRequests: number
  /** Milliseconds from arrival to end of a request that sets none of its own; default: no limit. */
  readonly requestTimeoutMs: number | undefined
}

/** The defaults of {@link EngineOptions}. */
export const defaultEngineOptions: EngineOptions = Object.freeze({
  maxQueuedRequests: 1024,
  requestTimeoutMs: undefined,
})
