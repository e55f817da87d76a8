import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { EnginePid } from '../faults/fault.js'

/**
 * The process that computes: the one that is named, or the largest of those that the server's process
 * has started, as `ps` lists them.
 */
export function enginePid(server: number | undefined, engine: number | undefined): EnginePid {
  return {
    find: async () => engine ?? (server === undefined ? undefined : await largestChild(server)),
    signal: (pid, name) => {
      try {
        process.kill(pid, name)
      } catch (error) {
        // Something else was quicker to end it.
        if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
      }
    },
  }
}

async function largestChild(parent: number): Promise<number | undefined> {
  const { stdout } = await promisify(execFile)('ps', ['-A', '-o', 'pid=,ppid=,rss='])
  const rows = stdout.split('\n').map((line) => line.trim().split(/\s+/).map(Number))
  const children = rows.filter(([, of]) => of === parent)
  return children.toSorted(([, , a = 0], [, , b = 0]) => b - a)[0]?.[0]
}
