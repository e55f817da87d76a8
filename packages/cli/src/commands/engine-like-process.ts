import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { threadPool } from '../engine/thread-pool.js'
import type { RunCommand } from './command-io.js'
import { asksForHelp } from './parse-command.js'

const bin = fileURLToPath(new URL('../../bin/cllm.js', import.meta.url))

/**
 * Runs a command that computes in its own process with the thread pool of `cllm serve`'s engine: only
 * a new process can have another one, and with Node's own a token takes half as long again.
 *
 * @param words - the command's name on the command line
 */
export function engineLikeProcess(words: readonly string[], run: RunCommand): RunCommand {
  return async (argv, io) => {
    if (io.env['UV_THREADPOOL_SIZE'] !== undefined || asksForHelp(argv)) return await run(argv, io)
    const options = { gpu: { type: 'string' } } as const
    const { gpu } = parseArgs({ args: argv, options, strict: false }).values
    const child = spawn(process.execPath, [bin, ...words, ...argv], {
      env: { ...io.env, UV_THREADPOOL_SIZE: threadPool(gpu) },
      stdio: ['ignore', 'inherit', 'inherit'],
    })
    const stop = (): void => void child.kill('SIGTERM')
    io.signal.addEventListener('abort', stop, { once: true })
    const [code] = (await once(child, 'exit')) as [number | null]
    io.signal.removeEventListener('abort', stop)
    return code ?? 1
  }
}
