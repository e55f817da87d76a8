import { execFileSync } from 'node:child_process'

const lookMs = 500

/**
 * Ends this process, as SIGTERM does, when one of the package managers above it is gone. A signal to `npx` or
 * `pnpm` does not reach what they started: between them stand shells that pass nothing on. On Windows
 * nothing is watched.
 */
export function endWithLaunchers() {
  const pids = launchers()
  const timer = setInterval(() => {
    if (!pids.some(isGone)) return
    clearInterval(timer)
    process.kill(process.pid, 'SIGTERM')
  }, lookMs)
  timer.unref()
}

/** The processes above this one up to the first package manager; none where none is a package manager. */
function launchers() {
  const above = []
  let count = 0
  for (let pid = process.ppid; pid > 1;) {
    const [, parent, command] = /^\s*(\d+)\s+(.*)$/s.exec(ask(pid)) ?? []
    if (parent === undefined) break
    above.push(pid)
    if (/\b(npm|npx|pnpm|pnpx|yarn|corepack)\b/.test(command)) count = above.length
    pid = Number(parent)
  }
  return above.slice(0, count)
}

function ask(pid) {
  try {
    return execFileSync('ps', ['-o', 'ppid=,command=', '-p', String(pid)], { encoding: 'utf8' })
  } catch {
    return '' // the process is gone, or there is no `ps`
  }
}

function isGone(pid) {
  try {
    process.kill(pid, 0)
    return false
  } catch (error) {
    return error.code === 'ESRCH'
  }
}
