import type { Target } from '../load/target.js'
import type { Canary } from './canary.js'

/** The process that computes, where it is known. */
export interface EnginePid {
  /** Its number now; undefined when there is none. */
  readonly find: () => Promise<number | undefined>
  /** Sends it a signal; one that is gone is no error. */
  readonly signal: (pid: number, name: 'SIGKILL' | 'SIGSTOP' | 'SIGCONT') => void
}

/** How hard the faults are. */
export interface FaultOptions {
  /** Requests at once where a fault wants the server to be full. */
  readonly clients: number
  /** Connections at once. */
  readonly connections: number
  /** How long the canary may take after a fault, in milliseconds. */
  readonly recoveryMs: number
  /** How long it may take when the engine's process has to be started again. */
  readonly restartMs: number
  /** How long the engine's process is stopped. */
  readonly stopMs: number
  /** Words of a long prompt. */
  readonly words: number
  /** Tokens of a long answer. */
  readonly tokens: number
}

/** What came of a fault. */
export interface FaultOutcome {
  readonly verdict: 'pass' | 'fail' | 'skip'
  /** What came, or why it was skipped. */
  readonly came: string
}

/** What a fault is injected with. */
export interface FaultContext {
  readonly target: Target
  readonly options: FaultOptions
  readonly engine: EnginePid | undefined
  readonly canary: Canary
}

/** A way in which clients or processes misbehave. */
export interface Fault {
  readonly name: string
  /** What a good server does, beside serving the canary afterwards. */
  readonly expected: string
  /** Whether the engine's process is gone for a time. */
  readonly restarts?: boolean
  /** Injects it and judges what came of it. */
  readonly run: (context: FaultContext) => Promise<FaultOutcome>
}
