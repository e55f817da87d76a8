import { spawn, type ChildProcess } from 'node:child_process'
import { createServer, type AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { CllmError, attempt, systemClock, within } from '@cllm/core'

/** A server started for a measurement. */
export interface StartedServer {
  readonly url: URL
  /** Ends the server and all its child processes. */
  readonly stop: () => Promise<void>
}

/** Options for starting a server. */
export interface StartOptions {
  /** How long it may take to answer, in milliseconds. */
  readonly timeoutMs: number
  readonly signal: AbortSignal
}

/**
 * Starts a server with a shell command and waits until it answers.
 *
 * @param command - `{port}` in it is replaced by a free port
 * @throws `target_unavailable` with the end of its output when it ends or does not answer in time, and the signal's
 *   reason
 */
export async function startServer(
  command: string,
  { timeoutMs, signal }: StartOptions,
): Promise<StartedServer> {
  const port = await freePort()
  const child = spawn(command.replaceAll('{port}', String(port)), {
    shell: true,
    // Its own process group, so that the shell's children can be stopped with it.
    detached: process.platform !== 'win32',
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const kill = (name: NodeJS.Signals) => killTree(child.pid, name)
  const killAtExit = () => kill('SIGKILL')
  process.once('exit', killAtExit)
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()))
  let written = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (text: Buffer) => (written = (written + String(text)).slice(-2000)))
  }
  const stop = async () => {
    kill('SIGTERM')
    await within(systemClock, 10_000, ended, () => kill('SIGKILL'))
    await ended
    process.off('exit', killAtExit)
  }
  const url = new URL(`http://127.0.0.1:${port}`)
  const problem = await waitFor(url, child, { timeoutMs, signal })
  if (problem === undefined) return { url, stop }
  await stop()
  signal.throwIfAborted()
  const told = written.trim() === '' ? 'it wrote nothing' : `it wrote:\n${written.trim()}`
  throw new CllmError('target_unavailable', `${command}: ${problem}; ${told}`)
}

async function waitFor(url: URL, child: ChildProcess, { timeoutMs, signal }: StartOptions) {
  const end = performance.now() + timeoutMs
  while (performance.now() < end && !signal.aborted) {
    if (child.exitCode !== null) return `ended with code ${child.exitCode}`
    if (child.signalCode !== null) return `ended by ${child.signalCode}`
    // A server without /health answers 404 once it is up; 503 means that it is loading its model.
    // One that accepts and is silent must not outlast the time.
    const left = AbortSignal.timeout(Math.max(1, Math.ceil(end - performance.now())))
    const asking = { signal: AbortSignal.any([signal, left]) }
    const response = await fetch(new URL('/health', url), asking).catch(() => undefined)
    await response?.body?.cancel()
    if (response !== undefined && response.status < 500) return undefined
    await sleep(100)
  }
  return `did not answer within ${timeoutMs} ms`
}

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

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
  // It has ended.
  attempt(() => kill(-pid, signal))
}
