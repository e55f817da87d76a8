import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { threadPool } from '../../engine/available-cores.js'
import { killAtExit } from '../../process/kill-at-exit.js'
import type { RunCommand } from '../command-io.js'
import { asksForHelp } from '../flags/flags.js'

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
