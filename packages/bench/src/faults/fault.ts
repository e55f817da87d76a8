import type { Target } from '../load/target.js'
import type { Canary } from './canary.js'

/** Access to the engine's process. */
export interface EnginePid {
  /** Its current process id; undefined when there is none. */
  readonly find: () => Promise<number | undefined>
  /** Sends it a signal; does nothing if the process has ended. */
  readonly signal: (pid: number, name: 'SIGKILL' | 'SIGSTOP' | 'SIGCONT') => void
}

/** Sizes and time limits of the faults. */
export interface FaultOptions {
  /** Concurrent requests for faults that need a full server. */
  readonly clients: number
  /** Concurrent connections. */
  readonly connections: number
  /** How long the canary may take after a fault, in milliseconds. */
  readonly recoveryMs: number
  /** How long it may take when the engine's process has to restart. */
  readonly restartMs: number
  /** How long the engine's process is paused. */
  readonly stopMs: number
  /** Words of a long prompt. */
  readonly words: number
  /** Tokens of a long answer. */
  readonly tokens: number
}

/** The outcome of a fault. */
export interface FaultOutcome {
  readonly verdict: 'pass' | 'fail' | 'skip'
  /** What happened, or why the fault was skipped. */
  readonly came: string
}

/** The inputs of a fault. */
export interface FaultContext {
  readonly target: Target
  readonly options: FaultOptions
  readonly engine: EnginePid | undefined
  readonly canary: Canary
}

/** A misbehaviour of clients or processes. */
export interface Fault {
  readonly name: string
  /** The expected behaviour of the server, besides answering the canary afterwards. */
  readonly expected: string
  /** Whether the fault makes the engine's process unavailable for a time. */
  readonly restarts?: boolean
  /** Injects the fault and judges the outcome. */
  readonly run: (context: FaultContext) => Promise<FaultOutcome>
}
