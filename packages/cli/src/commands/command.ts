import type { Readable } from 'node:stream'
import { asksForHelp, type Flags, flagsHelp, parseFlags, type Values, wrong } from './flags.js'

/** Where a command writes text. */
export interface Output {
  /** Writes the text unchanged. */
  write(text: string): unknown
  /** True for a terminal, which can show a progress bar. */
  readonly isTTY?: boolean | undefined
}

/** Where a command reads what is typed or piped. */
export type Input = Readable & {
  /** True for a terminal, where somebody types. */
  readonly isTTY?: boolean | undefined
}

/** A command's access to its process; tests pass their own. */
export interface CommandIo {
  readonly stdout: Output
  readonly stderr: Output
  /** Default: nothing. */
  readonly stdin?: Input
  readonly env: NodeJS.ProcessEnv
  /** Aborted when the command must stop, such as by Ctrl-C. */
  readonly signal: AbortSignal
}

/** A command ended because another process failed, which has said why on standard error. */
export class CommandFailed extends Error {}

/** Runs a command; `argv` excludes the command's name. Returns the exit code. */
export type RunCommand = (argv: readonly string[], io: CommandIo) => Promise<number>

/** Writes a command's result, as JSON or as text. */
export function tell(io: CommandIo, asJson: boolean, found: unknown, text: () => string): void {
  io.stdout.write(asJson ? `${JSON.stringify(found, undefined, 2)}\n` : text())
}

/** A parsed command line. */
interface Given<Table extends Flags> {
  readonly flags: Values<Table>
  /** The arguments that are no flags, in their order. */
  readonly words: readonly string[]
  /** The arguments behind `--`. */
  readonly rest: readonly string[]
}

/** A command: what its help says and what it does. */
interface CommandDefinition<Table extends Flags, More extends readonly unknown[]> {
  /**
   * Its name and arguments: `run <model> [<prompt>]`. Those in square brackets may be left out, and
   * `[-- …]` says that it takes what stands behind `--`.
   */
  readonly usage: string
  /** What it does, in lines of at most 100 characters. */
  readonly doc: string
  readonly flags: Table
  /** What its help says behind the flags. Default: nothing. */
  readonly ending?: string
  /** Returns the exit code; default 0. */
  readonly run: (given: Given<Table>, io: CommandIo, ...more: More) => Promise<number | void>
}

/** A command that parses its command line, or prints its help, from one definition. */
export function defineCommand<Table extends Flags, More extends readonly unknown[] = []>(
  definition: CommandDefinition<Table, More>,
): (argv: readonly string[], io: CommandIo, ...more: More) => Promise<number> {
  const { usage, doc, flags, ending = '', run } = definition
  const hasFlags = Object.keys(flags).length > 0
  const [words, behind = ''] = usage.split(/ (?=\[-- )/)
  const line = [words, hasFlags ? '[flags]' : '', behind].filter((part) => part !== '').join(' ')
  const table = hasFlags ? `\n${flagsHelp(flags)}` : ''
  const help = `Usage: cllm ${line}\n\n${doc.trim()}\n${table}${ending}`
  return async (argv, io, ...more) => {
    if (asksForHelp(argv.slice(0, endOf(argv, usage)))) {
      io.stdout.write(help)
      return 0
    }
    return (await run(parse(argv, usage, flags), io, ...more)) ?? 0
  }
}

/** The index at which the arguments for another program begin. */
function endOf(argv: readonly string[], usage: string): number {
  const at = usage.includes('[-- ') ? argv.indexOf('--') : -1
  return at === -1 ? argv.length : at
}

function parse<Table extends Flags>(argv: readonly string[], usage: string, flags: Table) {
  const end = endOf(argv, usage)
  const own = argv.slice(0, end)
  const known = [...usage.split(' [-- ')[0]!.matchAll(/\[?<[\w-]+>/g)].map(String)
  const words: string[] = []
  const hint = usage.includes('[-- ') ? '; what is passed on stands behind `--`' : ''
  const onWord = (word: string): void => {
    if (words.length === known.length) throw wrong(`unexpected argument "${word}"${hint}`)
    words.push(word)
  }
  const values = parseFlags(own, flags, onWord, hint)
  const missing = known[words.length]
  if (missing?.[0] === '<') throw wrong(`${missing} is missing: cllm ${usage}; --help says more`)
  return { flags: values, words, rest: argv.slice(end + 1) }
}
