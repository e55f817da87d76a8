import { plainEnvironment } from '@cllm/testing'
// As it is built: an engine's process starts from there.
import { dispatch } from '../dist/dispatch.js'
import type { CommandIo } from '../src/commands/command.js'

/** Arguments that are written as on a command line. */
export const words = (text: string): string[] => text.split(' ')

/** The surroundings of a command that keep what it writes. */
export function commandIo(signal: AbortSignal = new AbortController().signal): CommandIo & {
  readonly written: Readonly<Record<'stdout' | 'stderr', string>>
} {
  const written = { stdout: '', stderr: '' }
  const into = (name: keyof typeof written) => ({
    write: (text: string) => void (written[name] += text),
  })
  return { written, stdout: into('stdout'), stderr: into('stderr'), env: {}, signal }
}

/**
 * Runs `cllm` in this process to its end, for what does not depend on a process: one of its own costs a
 * second, most of it for loading modules.
 */
export async function inside(argv: readonly string[], env: NodeJS.ProcessEnv = {}) {
  const io = commandIo()
  const code = await dispatch(argv, { ...io, env: plainEnvironment(process.env, env) })
  return { code, ...io.written }
}
