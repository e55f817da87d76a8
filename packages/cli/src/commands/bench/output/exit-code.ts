import type { Stopped } from '@cllm/bench'

/** The exit codes of the `cllm bench` commands. */
export const exitCode = {
  ok: 0,
  /** Nothing was measured: the target cannot be reached, or a run had no success. */
  failed: 1,
  /** A flag or an input file is wrong. */
  usage: 2,
  /** A target stopped during a run; the partial results are printed. */
  partial: 3,
  /** Interrupted, such as by Ctrl-C; the partial results are printed. */
  interrupted: 130,
} as const

/** The exit code for runs, each with its successful requests and why it stopped early, if so. */
export function exitCodeOf(
  runs: readonly { readonly ok: number; readonly stopped: Stopped | null }[],
): number {
  if (runs.some(({ stopped }) => stopped === 'interrupted')) return exitCode.interrupted
  if (runs.every(({ ok }) => ok === 0)) return exitCode.failed
  if (runs.some(({ stopped }) => stopped === 'target-gone')) return exitCode.partial
  return runs.some(({ ok }) => ok === 0) ? exitCode.failed : exitCode.ok
}
