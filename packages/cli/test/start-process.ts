import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { plainEnvironment } from '@cllm/testing'
import type { Test } from 'tap'

export const bin = fileURLToPath(new URL('../bin/cllm.js', import.meta.url))

/**
 * Kills a process after a test, with all of its group if it leads one, and waits for it and for those that have its
 * output: what still ran would write into folders that are removed next. Returns the process.
 */
export function killAfter<Child extends ChildProcess>(t: Test, child: Child): Child {
  const closed = new Promise((resolve) => child.once('close', resolve))
  t.teardown(async () => {
    try {
      process.kill(-child.pid!, 'SIGKILL')
    } catch {
      child.kill('SIGKILL')
    }
    await closed
  })
  return child
}

/** Starts a program for Node, as the leader of a group, as a shell with a terminal does. */
export function startNode(t: Test, argv: readonly string[], more: NodeJS.ProcessEnv = {}) {
  const child = spawn(process.execPath, argv, {
    env: plainEnvironment(process.env, more),
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: process.platform !== 'win32',
  })
  return killAfter(t, child)
}

/** Starts `cllm`. */
export const start = (t: Test, args: readonly string[], more: NodeJS.ProcessEnv = {}) =>
  startNode(t, [bin, ...args], more)

/** A server that listens. */
export interface Running {
  readonly url: string
  readonly child: ChildProcess
  readonly errors: Promise<string>
}

/** Waits until a server listens. */
export async function listening(t: Test, child: ChildProcess): Promise<Running> {
  const errors = text(child.stderr!)
  const lines = createInterface(child.stdout!)
  const line = await Promise.race([once(lines, 'line').then(String), errors])
  t.match(line, /^listening on http:\/\/[\w.]+:\d+$/)
  const url = line.replace('listening on ', '').replace('0.0.0.0', '127.0.0.1')
  return { url, child, errors }
}
