import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { EnginePid } from '@cllm/bench'

/**
 * The engine's process: `engine` if given, otherwise the child of the server's process that uses
 * the most memory, as listed by `ps`.
 */
export function enginePid(server: number | undefined, engine: number | undefined): EnginePid {
  return {
    find: async () => engine ?? (server === undefined ? undefined : await largestChild(server)),
    signal: (pid, name) => {
      try {
        process.kill(pid, name)
      } catch (error) {
        // The process has already ended.
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
