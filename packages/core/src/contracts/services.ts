/** Time, injected: the same engine and policies run on real and on simulated time. */
export interface Clock {
  /**
   * Milliseconds with fractions, for durations and timers: since the epoch as the machine knew it when the process
   * started. Never goes back, and stands still while the machine sleeps.
   */
  now(): number
  /**
   * Milliseconds since the epoch as the machine knows it now, for dates that are shown, kept, or compared with those of
   * files and other machines. Jumps, either way, when the machine wakes up or its clock is set.
   */
  wall(): number
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

/** A line with its fields. */
export type LogMethod = (fields: Readonly<Record<string, unknown>>, message: string) => void

/** Where log lines go; pino's loggers fit. */
export interface Logger {
  readonly debug: LogMethod
  readonly info: LogMethod
  readonly warn: LogMethod
  readonly error: LogMethod
}

const nothing: LogMethod = () => {}

/** Logs nothing. */
export const silentLogger: Logger = Object.freeze({
  debug: nothing,
  info: nothing,
  warn: nothing,
  error: nothing,
})

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
