import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { plainEnvironment } from '@cllm/testing'
import { resolveModel } from 'cllm'
import type { Test } from 'tap'

export const bin = fileURLToPath(new URL('../bin/cllm.js', import.meta.url))
export const { path: model } = await resolveModel('stories15m')
/** One thread: the machine's others may be busy with other tests. */
const usual = ['--port', '0', '--threads', '1', '--gpu', 'off', '--log-level', 'warn']

/** A process of `cllm serve` that listens. */
export interface Running {
  readonly url: string
  readonly child: ChildProcess
  readonly errors: Promise<string>
}

/** Starts `cllm serve`. */
function run(args: readonly string[], env: NodeJS.ProcessEnv = {}): ChildProcess {
  return spawn(process.execPath, [bin, 'serve', ...args], {
    env: { ...plainEnvironment(process.env), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
}

/** Starts it on stories15m's usual terms and waits until it listens. */
export async function serve(t: Test, ...args: readonly string[]): Promise<Running> {
  return await listening(t, run([...usual, ...args]))
}

/** The same, with nothing of what other tests' servers have learned: one of them may have had slow copies. */
export async function serveAnew(t: Test, ...args: readonly string[]): Promise<Running> {
  const env = { CLLM_CACHE: dirname(model), XDG_CACHE_HOME: join(t.testdirName, 'cache') }
  return await listening(t, run([...usual, ...args], env))
}

async function listening(t: Test, child: ChildProcess): Promise<Running> {
  t.teardown(() => child.kill('SIGKILL'))
  const errors = text(child.stderr!)
  const lines = createInterface(child.stdout!)
  const line = await Promise.race([once(lines, 'line').then(String), errors])
  t.match(line, /^listening on http:\/\/[\w.]+:\d+$/)
  const url = line.replace('listening on ', '').replace('0.0.0.0', '127.0.0.1')
  return { url, child, errors }
}

/** Ends it, as an orchestrator does. */
export async function stop(t: Test, { child }: Running, signal: NodeJS.Signals = 'SIGTERM') {
  child.kill(signal)
  t.same(await once(child, 'exit'), [0, null], `${signal} ends it with 0`)
}
