import { once } from 'node:events'
import { dirname, join } from 'node:path'
import { resolveModel } from 'cllm'
import type { Test } from 'tap'
import { listening, type Running, start } from './start-process.js'

export const { path: model } = await resolveModel('stories15m')
/** One thread: the machine's others may be busy with other tests. */
const usual = ['--port', '0', '--threads', '1', '--gpu', 'off', '--log-level', 'warn']

/** Starts `cllm serve` on stories15m's usual terms and waits until it listens. */
export async function serve(t: Test, ...args: readonly string[]): Promise<Running> {
  return await listening(t, start(t, ['serve', ...usual, ...args]))
}

/** The same, with nothing of what other tests' servers have learned: one of them may have had slow copies. */
export async function serveAnew(t: Test, ...args: readonly string[]): Promise<Running> {
  const env = { CLLM_CACHE: dirname(model), XDG_CACHE_HOME: join(t.testdirName, 'cache') }
  return await listening(t, start(t, ['serve', ...usual, ...args], env))
}

/** Ends it, as an orchestrator does. */
export async function stop(t: Test, { child }: Running, signal: NodeJS.Signals = 'SIGTERM') {
  child.kill(signal)
  t.same(await once(child, 'exit'), [0, null], `${signal} ends it with 0`)
}
