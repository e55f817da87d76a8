import { spawn } from 'node:child_process'

/** What {@link killTree} works with; the defaults are this machine's. */
export interface KillTreeOptions {
  readonly platform?: NodeJS.Platform
  /** Sends a signal to a process or, below 0, to a group; throws where there is none. */
  readonly kill?: (pid: number, signal: NodeJS.Signals) => void
  /** Runs a program, without waiting for it. */
  readonly run?: (program: string, args: readonly string[]) => void
}

const processKill = (pid: number, signal: NodeJS.Signals): void => void process.kill(pid, signal)

const runQuietly = (program: string, args: readonly string[]): void => {
  spawn(program, args, { stdio: 'ignore', windowsHide: true }).on('error', () => {})
}

/**
 * Sends a signal to a process and to all that it has started; it must lead a process group. Windows has no
 * groups, and no signal that a process could answer: `taskkill` ends the tree there.
 *
 * @param pid - undefined: it never began, and nothing is done
 */
export function killTree(
  pid: number | undefined,
  signal: NodeJS.Signals,
  { platform = process.platform, kill = processKill, run = runQuietly }: KillTreeOptions = {},
): void {
  if (pid === undefined) return
  if (platform === 'win32') {
    run('taskkill', ['/pid', String(pid), '/t', '/f'])
    return
  }
  try {
    kill(-pid, signal)
  } catch {
    // It has ended.
  }
}
