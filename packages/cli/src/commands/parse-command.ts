import { parseArgs, type ParseArgsConfig } from 'node:util'
import { CllmError } from '@cllm/core'
import { suggestion } from '../config/suggestion.js'
import type { CommandIo } from './command-io.js'

type Flags = NonNullable<ParseArgsConfig['options']>

/** What a command takes. */
export interface CommandDefinition<Options extends Flags> {
  /** What `--help` prints. */
  readonly usage: string
  readonly options: Options
  /** The words that must follow, as the usage names them. */
  readonly words: readonly string[]
}

type Parsed<Options extends Flags> = ReturnType<
  typeof parseArgs<{ options: Options; allowPositionals: true }>
>

/** Whether a command line asks how the command is used. */
export const asksForHelp = (argv: readonly string[]): boolean =>
  argv.includes('--help') || argv.includes('-h')

/**
 * Takes a command line apart, or prints the usage for `--help` and returns undefined.
 *
 * @throws `invalid_configuration` for a flag that is unknown or misses its value, and for a word too
 *   many or too few
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
