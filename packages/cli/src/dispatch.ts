import { readFileSync } from 'node:fs'
import { CllmError } from '@cllm/core'
import { CommandFailed, type CommandIo, type RunCommand } from './commands/command.js'
import { asksForHelp } from './commands/flags.js'
import { commandGroups, commands } from './commands/help/command-table.js'
import { suggestion } from './config/messages.js'

/** @param group only the commands that begin with this word */
const help = (group?: string): string => {
  const parts = Object.entries(commandGroups).map(([title, own]) => {
    const lines = Object.entries(own)
      .filter(([name]) => group === undefined || name.startsWith(`${group} `))
      .map(([name, { summary }]) => `  ${name.padEnd(17)}${summary}\n`)
    return lines.length === 0 ? '' : `${title}:\n${lines.join('')}\n`
  })
  return `Usage: cllm ${group === undefined ? '' : `${group} `}<command> [flags]

${parts.join('')}\`cllm help <command>\` explains a command. \`cllm --version\` prints the version.
`
}

const version = (): string => {
  const file = new URL('../package.json', import.meta.url)
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version
}

const usageError = 2
const usageCodes: ReadonlySet<string> = new Set([
  'invalid_configuration',
  'invalid_dataset',
  'invalid_policy',
  'plugin_conflict',
  'plugin_invalid',
  'plugin_not_found',
])
const failure = 1
/** The exit code for Ctrl-C, as in shells and in the commands of `cllm bench`. */
const interrupted = 130

/** Whether a command ended because a signal asked for it. */
const isInterruption = (error: unknown, { signal }: CommandIo): boolean =>
  signal.aborted &&
  (error === signal.reason || (CllmError.isInstance(error) && error.code === 'cancelled'))

const report = (error: unknown, io: CommandIo): number => {
  if (isInterruption(error, io)) {
    io.stderr.write('interrupted\n')
    return interrupted
  }
  if (error instanceof CommandFailed) return failure
  if (!CllmError.isInstance(error)) {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
    io.stderr.write(`unexpected error: ${text}\n`)
    return failure
  }
  io.stderr.write(`error: ${error.message}\n`)
  return usageCodes.has(error.code) ? usageError : failure
}

/** Hints for Ollama's commands that do not exist here. */
const ollamas = new Map([
  ['ls', '; did you mean list?'],
  ['cp', ', but POST /api/copy of a running server does it'],
  ['create', ', but POST /api/create of a running server does it'],
  ['push', ', which has no counterpart here'],
])

/** Runs the command that a command line names and returns its exit code. */
export const dispatch: RunCommand = async (argv, io) => {
  const [first, second] = argv
  if (first === undefined) {
    io.stderr.write(help())
    return usageError
  }
  if (first === 'help' && second !== undefined) return await dispatch([...argv.slice(1), '-h'], io)
  if (first === 'help' || asksForHelp([first])) {
    io.stdout.write(help())
    return 0
  }
  if (first === '--version' || first === '-v' || first === 'version') {
    io.stdout.write(`${version()}\n`)
    return 0
  }
  const isGroup = [...commands.keys()].some((name) => name.startsWith(`${first} `))
  const isAlone = commands.has(first) && second?.startsWith('-') === true
  if (isGroup && !isAlone && second !== undefined && asksForHelp([second])) {
    io.stdout.write(help(first))
    return 0
  }
  const words = isGroup && !isAlone && second !== undefined ? 2 : 1
  const name = argv.slice(0, words).join(' ')
  const command = commands.get(name)
  if (command === undefined) {
    const isWord = name === first && isGroup
    // A right word is not another one misspelt: `gpu` is no `ps`.
    const near = [...commands.keys()].filter((known) => !isWord || known.startsWith(name))
    const meant = ollamas.get(name) ?? suggestion(name, near)
    const problem = isWord ? `${name} alone is no command` : `unknown command ${name}`
    io.stderr.write(`error: ${problem}${meant}\n`)
    io.stderr.write(isGroup ? `\n${help(first)}` : '`cllm help` lists the commands.\n')
    return usageError
  }
  const rest = argv.slice(words)
  try {
    if (command.help !== undefined && asksForHelp(rest)) {
      io.stdout.write(await command.help(rest.includes('--help-all')))
      return 0
    }
    const run = await command.load()
    return await run(rest, io)
  } catch (error) {
    return report(error, io)
  }
}
