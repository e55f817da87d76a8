import { parseArgs, type ParseArgsConfig } from 'node:util'
import { CllmError } from '@cllm/core'
import { suggestion } from '../../config/suggestion.js'
import type { CommandIo } from '../command-io.js'

type Flags = NonNullable<ParseArgsConfig['options']>

/** The command line that a command accepts. */
export interface CommandDefinition<Options extends Flags> {
  /** The output of `--help`. */
  readonly usage: string
  readonly options: Options
  /** The required positional arguments, as named in the usage. */
  readonly words: readonly string[]
}

type Parsed<Options extends Flags> = ReturnType<
  typeof parseArgs<{ options: Options; allowPositionals: true }>
>

/** Whether a command line has `--help` or `-h`. */
export const asksForHelp = (argv: readonly string[]): boolean =>
  argv.includes('--help') || argv.includes('-h')

/**
 * Parses a command line, or prints the usage for `--help` and returns undefined.
 *
 * @throws `invalid_configuration` for an unknown flag, a flag without its value, and a missing or
 *   unexpected argument
 */
export function parseCommand<Options extends Flags>(
  argv: string[],
  io: CommandIo,
  { usage, options, words }: CommandDefinition<Options>,
): Parsed<Options> | undefined {
  if (asksForHelp(argv)) {
    io.stdout.write(usage)
    return undefined
  }
  let parsed: Parsed<Options>
  try {
    checkFlags(argv, options)
    parsed = parseArgs({ args: argv, options, allowPositionals: true })
  } catch (cause) {
    throw CllmError.from(cause, 'invalid_configuration')
  }
  const missing = words[parsed.positionals.length]
  if (missing !== undefined) throw wrong(`${missing} is missing`)
  const extra = parsed.positionals[words.length]
  if (extra !== undefined) throw wrong(`unexpected argument "${extra}"`)
  return parsed
}

function checkFlags(argv: readonly string[], options: Flags): void {
  const { tokens } = parseArgs({
    args: [...argv],
    options,
    strict: false,
    tokens: true,
  })
  for (const token of tokens) {
    if (token.kind !== 'option' || token.name in options) continue
    const meant = suggestion(token.name, Object.keys(options), '--')
    throw wrong(`unknown flag ${token.rawName}${meant}`)
  }
}

function wrong(message: string): CllmError {
  return new CllmError('invalid_configuration', message)
}
