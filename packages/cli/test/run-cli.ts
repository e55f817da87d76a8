import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { plainEnvironment } from '@cllm/testing'

const bin = fileURLToPath(new URL('../bin/cllm.js', import.meta.url))

/** Arguments that are written as on a command line. */
export const words = (text: string): string[] => text.split(' ')

/** Runs `cllm` in a process of its own to its end. */
export async function runCli(argv: readonly string[]) {
  const child = spawn(process.execPath, [bin, ...argv], {
    env: plainEnvironment(process.env),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'exit') as Promise<[number]>,
  ])
  return { code, stdout, stderr }
}
