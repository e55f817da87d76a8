import { parseArgs, type ParseArgsConfig } from 'node:util'
import { CllmError } from '@cllm/core'
import type { CommandIo } from './command-io.js'

/** The flags and words of a command line. */
export interface CommandDefinition<Options extends NonNullable<ParseArgsConfig['options']>> {
  /** Shown by `--help` and after a wrong command line. */
  readonly usage: string
  readonly options: Options
  /** Names of the words that must follow, for the message when one is missing. */
  readonly words: readonly string[]
}

type Parsed<Options extends NonNullable<ParseArgsConfig['options']>> = ReturnType<
  typeof parseArgs<{ options: Options; allowPositionals: true; strict: true }>
>

/**
 * Parses a command line, runs the command and turns errors into a message and an exit code:
 * 0 for success, 1 for a failure, 2 for a wrong command line, 130 when cancelled.
 */
export async function runCommand<Options extends NonNullable<ParseArgsConfig['options']>>(
  argv: string[],
  io: CommandIo,
  { usage, options, words }: CommandDefinition<Options>,
  action: (parsed: Parsed<Options>) => Promise<void>,
): Promise<number> {
  if (argv.includes('--help') || argv.includes('-h')) {
    io.stdout.write(usage)
    return 0
  }
  let parsed: Parsed<Options>
  try {
    parsed = parseArgs({ args: argv, options, allowPositionals: true, strict: true })
    checkWords(parsed.positionals, words)
  } catch (error) {
    io.stderr.write(`error: ${(error as Error).message}\n\n${usage}`)
    return 2
  }
  try {
    await action(parsed)
    return 0
  } catch (error) {
    const { code, message } = CllmError.from(error)
    io.stderr.write(`error: ${message}\n`)
    return code === 'cancelled' ? 130 : 1
  }
}

function checkWords(received: readonly string[], expected: readonly string[]): void {
  const missing = expected[received.length]
  if (missing !== undefined) throw new Error(`${missing} is missing`)
  const extra = received[expected.length]
  if (extra !== undefined) throw new Error(`unexpected argument "${extra}"`)
}
