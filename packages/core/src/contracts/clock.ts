import type { Logger } from './logger.js'

/** Time, injected: the same engine and policies run on real and on simulated time. */
export interface Clock {
  /** Milliseconds since the epoch, with fractions; never goes back. */
  now(): number
  /**
   * Calls back once `now()` has reached `at`. The returned function cancels it. A timer alone does
   * not keep a process alive, except with `keepsAlive`.
   */
  at(at: number, callback: () => void, options?: TimerOptions): () => void
}

/** How a {@link Clock} keeps a timer. */
export interface TimerOptions {
  /** Whether the process lives until it has gone off, as work depends on it; default: false. */
  readonly keepsAlive?: boolean
}

/** A source of random 32-bit numbers, injected. */
export interface Random {
  /** An integer from 0 to 4294967295. */
  uint32(): number
}

/** What all parts of a server have from outside: time, chance and the log. */
export interface Services {
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
}
