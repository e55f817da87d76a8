import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { constants, setPriority } from 'node:os'
import { createInterface } from 'node:readline'
import { attempt } from '@cllm/core'
import type { ProgramResult, RunProgram } from '@cllm/backend-llamacpp/native-build'
import { killAtExit } from '../../process/kill-at-exit.js'

/** Characters of the output that are kept. */
const keptOutput = 65_536

/**
 * Runs a program at low priority, as a server may compute beside it, in a process group of its own:
 * compilers that it has started end with it.
 *
 * @param env - the program's environment; its messages are in English
 */
export function programRunner(env: NodeJS.ProcessEnv): RunProgram {
  return async (program, args, { signal, onLine }): Promise<ProgramResult> => {
    signal.throwIfAborted()
    const isWindows = process.platform === 'win32'
    const child = spawn(program, args, {
      env: { ...env, LC_ALL: 'C' },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: !isWindows,
      windowsHide: true,
    })
    let output = ''
    for (const stream of [child.stdout, child.stderr]) {
      createInterface(stream).on('line', (line) => {
        output = `${output}${line}\n`.slice(-keptOutput)
        onLine?.(line)
      })
    }
    const { pid } = child
    const stop = (): void => {
      if (pid === undefined) return
      if (isWindows) spawn('taskkill', ['/pid', String(pid), '/t', '/f'], { stdio: 'ignore' })
      else attempt(() => process.kill(-pid, 'SIGKILL')) // the group may have ended
    }
    signal.addEventListener('abort', stop, { once: true })
    const hasEnded = killAtExit(stop)
    try {
      // It may have ended, or its priority must not be changed.
      if (pid !== undefined)
        attempt(() => setPriority(pid, constants.priority.PRIORITY_BELOW_NORMAL))
      const [exitCode] = (await once(child, 'close')) as [number | null]
      signal.throwIfAborted()
      return { exitCode, output }
    } finally {
      signal.removeEventListener('abort', stop)
      hasEnded()
    }
  }
}
