import type { Stopped } from '../load/run-load.js'

/** How the commands of `cllm bench` end. */
export const exitCode = {
  ok: 0,
  /** Nothing was measured: the target cannot be reached, or a run had no success. */
  failed: 1,
  /** A flag or an input file is wrong. */
  usage: 2,
  /** A target stopped in the middle; what was measured until then is printed. */
  partial: 3,
  /** Interrupted, as by Ctrl-C; what was measured until then is printed. */
  interrupted: 130,
} as const

/** The exit code for runs, each with its successes and why it stopped early, if it did. */
export function exitCodeOf(
  runs: readonly { readonly ok: number; readonly stopped: Stopped | null }[],
): number {
  if (runs.some(({ stopped }) => stopped === 'interrupted')) return exitCode.interrupted
  if (runs.every(({ ok }) => ok === 0)) return exitCode.failed
  if (runs.some(({ stopped }) => stopped === 'target-gone')) return exitCode.partial
  return runs.some(({ ok }) => ok === 0) ? exitCode.failed : exitCode.ok
}
