import type { Channel, FromEngine, ToEngine } from '../remote/channel.js'

/** A running engine process. */
export interface EngineLink {
  /**
   * To the engine, which sends `ready` or `failed`, or closes it. If `send` throws, that request or call fails alone.
   */
  readonly channel: Channel<ToEngine, FromEngine>
  /** Ends it at once; its channel closes. */
  readonly kill: () => void
}

/** Starts a process with an engine. */
export type StartEngine = () => EngineLink

/** How an engine's process is watched and replaced. */
export interface SupervisorOptions {
  /**
   * Milliseconds without a step, while work is pending, after which the engine counts as hanging and
   * is killed. Must exceed the longest step and the longest pause of a policy. Default 120,000; 0
   * disables it.
   */
  readonly hangTimeoutMs: number
  /**
   * Milliseconds without a message, while work is pending that needs no forward pass (checking a
   * request, tokenizing its prompt, compiling its grammar or schema, a query), after which the engine
   * counts as hanging and is killed. At most `hangTimeoutMs`, which also covers steps: a step of a big
   * model on a slow CPU can be long. Default 10,000; 0 disables it, as does `hangTimeoutMs: 0`.
   */
  readonly prepareTimeoutMs: number
  /** Milliseconds after which an engine that is not ready is killed; default 600,000. */
  readonly startTimeoutMs: number
  /** Failed starts in a row before the supervisor gives up; default 5. */
  readonly maxStarts: number
  /**
   * Milliseconds before the first restart, the second, …; the last value applies to all further ones.
   * After one minute of uptime the backoff is reset. Default 0, 500, 1,000, 2,000, 5,000, 10,000.
   */
  readonly restartDelaysMs: readonly number[]
  /** Requests that may wait, beyond the number of slots, while there is no engine; default 1,024. */
  readonly maxQueuedRequests: number
  /** Time limit of requests without one of their own, as in the engine; default: none. */
  readonly requestTimeoutMs: number | undefined
}

/** The defaults of {@link SupervisorOptions}. */
export const defaultSupervisorOptions: SupervisorOptions = Object.freeze({
  hangTimeoutMs: 120_000,
  prepareTimeoutMs: 10_000,
  startTimeoutMs: 600_000,
  maxStarts: 5,
  restartDelaysMs: [0, 500, 1000, 2000, 5000, 10_000],
  maxQueuedRequests: 1024,
  requestTimeoutMs: undefined,
})
