/** How an engine's process is watched and replaced. */
export interface SupervisorOptions {
  /**
   * An engine that computes no step for so many milliseconds while work waits is taken to hang and
   * killed. It must be longer than the longest step and the longest that a policy waits; default
   * 120,000, 0 for never.
   */
  readonly hangTimeoutMs: number
  /** An engine that is not ready after so many milliseconds is killed; default 600,000. */
  readonly startTimeoutMs: number
  /** Starts in a row that may fail before it is given up; default 5. */
  readonly maxStarts: number
  /**
   * Milliseconds before the first restart, the second, …; the last one stands for all after it. An
   * engine that lived for a minute counts as well again. Default 0, 500, 1,000, 2,000, 5,000, 10,000.
   */
  readonly restartDelaysMs: readonly number[]
  /** Requests that may wait beside those for all slots while there is no engine; default 1,024. */
  readonly maxQueuedRequests: number
  /** The limit of requests that set none of their own, as the engine has it; default: none. */
  readonly requestTimeoutMs: number | undefined
}

/** The defaults of {@link SupervisorOptions}. */
export const defaultSupervisorOptions: SupervisorOptions = Object.freeze({
  hangTimeoutMs: 120_000,
  startTimeoutMs: 600_000,
  maxStarts: 5,
  restartDelaysMs: [0, 500, 1000, 2000, 5000, 10_000],
  maxQueuedRequests: 1024,
  requestTimeoutMs: undefined,
})
