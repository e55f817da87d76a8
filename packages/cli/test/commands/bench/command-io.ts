import type { CommandIo } from '../../../src/commands/command-io.js'

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
