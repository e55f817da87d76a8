import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { constants, setPriority } from 'node:os'
import { createInterface } from 'node:readline'
import { killTree } from '@cllm/bench'
import { attempt } from '@cllm/core'
import type { ProgramResult, RunProgram } from '@cllm/backend-llamacpp/native-build'
import { threadPool } from '../../engine/available.js'
import { killAtExit } from '../../process/stop-signal.js'
import type { RunCommand } from '../command.js'
import { asksForHelp } from '../flags.js'

const bin = fileURLToPath(new URL('../../../bin/cllm.js', import.meta.url))

/**
 * Runs a command that computes in its own process, with the same thread pool as the engine of
 * `cllm serve`. This needs a new process: the pool's size cannot change later, and with Node's
 * default a token takes half as long again.
 *
 * @param words - the command's name on the command line
 * @param poolSize - the size of the thread pool. Default: by the command's `--gpu`
 */
export function engineLikeProcess(
  words: readonly string[],
  run: RunCommand,
  poolSize?: string,
): RunCommand {
  return async (argv, io) => {
    if (io.env['UV_THREADPOOL_SIZE'] !== undefined || asksForHelp(argv)) return await run(argv, io)
    const options = { gpu: { type: 'string' } } as const
    const { gpu } = parseArgs({ args: [...argv], options, strict: false }).values
    const child = spawn(process.execPath, [bin, ...words, ...argv], {
      env: { ...io.env, UV_THREADPOOL_SIZE: poolSize ?? threadPool(gpu) },
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    })
    // Not a signal: the terminal may have sent the child one, and a second would end it at once.
    const stop = (): void => child.disconnect()
    io.signal.addEventListener('abort', stop, { once: true })
    const hasEnded = killAtExit(() => void child.kill('SIGKILL'))
    const [code, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null]
    hasEnded()
    io.signal.removeEventListener('abort', stop)
    if (code !== null) return code
    io.stderr.write(`error: ${signal} ended the process that computes\n`)
    return 1
  }
}

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
    const child = spawn(program, args, {
      env: { ...env, LC_ALL: 'C' },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: process.platform !== 'win32',
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
    const stop = (): void => killTree(pid, 'SIGKILL')
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
