import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const runProgram = async (program, args) => (await promisify(execFile)(program, args)).stdout

/** The command that lists all processes: a line of id, parent's id and memory each. */
const listing = (platform) =>
  platform === 'win32'
    ? [
        'powershell.exe',
        '-NoProfile',
        '-Command',
        'Get-CimInstance Win32_Process | ForEach-Object { "$($_.ProcessId) $($_.ParentProcessId) $($_.WorkingSetSize)" }',
      ]
    : ['ps', '-A', '-o', 'pid=,ppid=,rss=']

/**
 * The engine's process: `engine` if given, otherwise the child of the server's process that uses
 * the most memory, as the system lists them.
 */
export function enginePid(server, engine, { platform = process.platform, run = runProgram } = {}) {
  return {
    find: async () =>
      engine ?? (server === undefined ? undefined : await largestChild(server, platform, run)),
    signal: (pid, name) => {
      try {
        process.kill(pid, name)
      } catch (error) {
        // The process has already ended.
        if (error.code !== 'ESRCH') throw error
      }
    },
  }
}

async function largestChild(parent, platform, run) {
  const [program, ...args] = listing(platform)
  const rows = (await run(program, args))
    .split('\n')
    .map((line) => line.trim().split(/\s+/).map(Number))
  const children = rows.filter(([, of]) => of === parent)
  return children.toSorted(([, , a = 0], [, , b = 0]) => b - a)[0]?.[0]
}
