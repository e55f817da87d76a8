import type { Usage } from '../engine/usage.js'

/**
 * A program: requests of one agent or conversation, each of which goes on with what the ones before have
 * said. Times are milliseconds of the engine's clock.
 */
export interface ProgramView {
  /** The session that names it, or the id of its first request where it was learnt from prompts. */
  readonly id: string
  readonly tenant: string
  /** When its first request came. */
  readonly arrival: number
  /** Its requests so far, and those of them that have not ended. */
  readonly calls: number
  readonly open: number
  /** Tokens that were computed for its requests that have ended, of prompts and answers. */
  readonly servedTokens: number
  /** Since when none of its requests is open, or until when none was. */
  readonly pausedAt: number
  /** Tokens that its idle slot holds; 0: it has none. */
  readonly keptTokens: number
}

/** A program between two of its requests, whose tokens an idle slot keeps. */
export interface PausedProgram {
  readonly program: ProgramView
  /** Milliseconds that having its tokens again takes: to compute them, or to save and restore them. */
  readonly lossMs: number
  /**
   * Returns for each millisecond that the slot waits, at best: by how long this program and others pause, and
   * how long it has. It falls while nothing comes, as the program may be gone.
   */
  readonly returnRate: number
}

/** What a policy sees of programs, worked out when it is asked for. */
export interface ProgramsView {
  /** Those that pause and have a slot, in no order. */
  paused(now: number): readonly PausedProgram[]
}

/** A program as `GET /admin/programs` shows it. */
export interface ProgramReport extends Omit<ProgramView, 'arrival' | 'pausedAt'>, Usage {
  /** How often it paused, and for how long in all, in milliseconds. */
  readonly pauses: number
  readonly pausedMs: number
  /** Milliseconds that it has paused now; absent while it has an open request. */
  readonly pausesSinceMs?: number
  /** The tool that it waits for then; absent: none that is known. */
  readonly tool?: string
}
