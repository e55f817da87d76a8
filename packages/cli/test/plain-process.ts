import { spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { plainEnvironment } from '@cllm/testing'
import type { Test } from 'tap'
import { model } from './serve-process.js'
import { listening, start } from './start-process.js'

// What a signal does to a process depends on all that listens in it, so these are as a user's are:
// plain processes, each the leader of a group, as a shell with a terminal starts them.

const usual = ['--port', '0', '--threads', '1', '--gpu', 'off', '--log-level', 'silent']
const fileOf = (path: string) => fileURLToPath(new URL(`../../../${path}`, import.meta.url))
/** A model that is there at once, where it does not matter which one answers. */
export const quickModel = [
  `--plugin=${fileOf('examples/backend-plugin/ngram-plugin.js')}`,
  '--backend=ngram',
  '--backend-options={"order":2}',
  '--ctx-size=32768',
  `--model=${fileOf('LICENSE')}`,
]
/** What takes a while. */
export const story = {
  prompt: 'Once upon a time',
  max_tokens: 150,
  temperature: 0,
  ignore_eos: true,
}

/** Starts `cllm serve`, with stories15m unless told, and waits until it listens. */
export async function serve(t: Test, more: NodeJS.ProcessEnv = {}, ...args: readonly string[]) {
  const served = args.includes('--model') ? [] : ['--model', model]
  const child = start(t, ['serve', ...served, ...usual, ...args], more)
  const { url } = await listening(t, child)
  const generate = async (body: object = story): Promise<Response> =>
    await fetch(`${url}/generate_stream`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
  const exit = once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>
  return { child, url, generate, exit }
}

/** The processes that a process has started, found as an operator would. */
export function childrenOf({ pid }: ChildProcess): number[] {
  const env = plainEnvironment(process.env)
  const { stdout } = spawnSync('ps', ['-o', 'pid=', '--ppid', String(pid)], {
    env,
    encoding: 'utf8',
  })
  return stdout
    .split('\n')
    .map(Number)
    .filter((child) => child > 0)
}

/** Waits for the first process that a process starts. */
export async function firstChildOf(parent: ChildProcess): Promise<number> {
  for (;;) {
    const [child] = childrenOf(parent)
    if (child !== undefined) return child
    await delay(50) // asking without a pause takes the processor that the processes need
  }
}

/** Resolves when a process is gone. */
export async function gone(pid: number): Promise<void> {
  for (;;) {
    try {
      process.kill(pid, 0)
    } catch {
      return
    }
    await delay(10)
  }
}
