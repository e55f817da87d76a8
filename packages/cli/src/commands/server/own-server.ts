import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { killAtExit } from '../../process/kill-at-exit.js'
import { CommandFailed, type CommandIo } from '../command-io.js'

const bin = fileURLToPath(new URL('../../../bin/cllm.js', import.meta.url))
const listening = 'listening on '

/** Nobody else's business, whatever the service's configuration says: its address, keys, batches, usage, cluster. */
const alone =
  '--host 127.0.0.1 --port 0 --log-level silent --no-tls-cert --no-tls-key --no-api-keys ' +
  '--requests-per-minute 0 --tokens-per-minute 0 --no-batches --batch-share 0 --no-usage ' +
  '--no-responses ' +
  '--no-cluster --no-cluster-keys --no-cluster-batches --workers 1'

/** A server that was started for a command. */
export interface OwnServer {
  readonly url: URL
  /** The key for it, which is made for it. */
  readonly apiKey: string
  /** Ends it; resolves when it has ended. */
  close(): Promise<void>
}

/**
 * Starts `cllm serve` on a free port of this machine, in a process that ends with this one. Its
 * progress and its errors show on standard error.
 *
 * @param flags - of `cllm serve`; the environment and its configuration file hold, too, but for what is the service's
 * @throws CommandFailed when it does not start; the reason is on standard error
 */
export async function startServer(flags: readonly string[], io: CommandIo): Promise<OwnServer> {
  const apiKey = randomBytes(32).toString('base64url')
  const child = spawn(process.execPath, [bin, 'serve', ...alone.split(' '), ...flags], {
    env: { ...io.env, CLLM_API_KEY: apiKey },
    // Ctrl-C is for this process; with the channel, its end is the server's, too.
    detached: true,
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  })
  const exited = once(child, 'exit')
  const stop = (): void => void (child.connected && child.disconnect())
  const hasEnded = killAtExit(() => void child.kill('SIGKILL'))
  io.signal.addEventListener('abort', stop, { once: true })
  const close = async (): Promise<void> => {
    stop()
    await exited
    hasEnded()
    io.signal.removeEventListener('abort', stop)
  }
  try {
    return { url: await urlOf(child.stdout!, exited), apiKey, close }
  } catch (error) {
    await close()
    io.signal.throwIfAborted()
    throw error
  }
}

async function urlOf(stdout: NodeJS.ReadableStream, exited: Promise<unknown>): Promise<URL> {
  const lines = createInterface(stdout)
  const found = new Promise<URL>((resolve) => {
    lines.on('line', (line) => {
      if (line.startsWith(listening)) resolve(new URL(line.slice(listening.length)))
    })
  })
  const url = await Promise.race([found, exited.then(() => undefined)])
  if (url !== undefined) return url
  throw new CommandFailed('the server for this command did not start')
}
