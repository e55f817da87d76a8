import { readFileSync } from 'node:fs'
import { CllmError } from '@cllm/core'
import type { CommandIo, RunCommand } from './commands/command-io.js'
import { suggestion } from './config/suggestion.js'

interface Command {
  readonly summary: string
  /** Loads the command's module. */
  readonly load: () => Promise<RunCommand>
  /** Loads its help, where the command does not print it itself. */
  readonly help?: () => Promise<string>
}

const commands: ReadonlyMap<string, Command> = new Map<string, Command>([
  [
    'serve',
    {
      summary: 'Serve a model over HTTP',
      load: async () => (await import('./commands/serve.js')).serve,
      help: async () => (await import('./commands/serve-help.js')).help(),
    },
  ],
  [
    'config',
    {
      summary: 'Show the effective configuration and where each value came from',
      load: async () => (await import('./commands/config.js')).run,
      help: async () => (await import('./commands/config.js')).help(),
    },
  ],
  [
    'models',
    {
      summary: 'List the models that go by name',
      load: async () => (await import('./commands/models.js')).run,
    },
  ],
  [
    'pull',
    { summary: 'Fetch a model', load: async () => (await import('./commands/pull.js')).run },
  ],
  [
    'keys add',
    { summary: 'Make an API key', load: async () => (await import('./commands/keys.js')).addKey },
  ],
  [
    'keys list',
    {
      summary: 'List the API keys',
      load: async () => (await import('./commands/keys.js')).listKeys,
    },
  ],
  [
    'keys revoke',
    {
      summary: 'Take an API key out',
      load: async () => (await import('./commands/keys.js')).revokeKey,
    },
  ],
  [
    'bench serve',
    {
      summary: 'Put load on a server and measure what its clients see',
      load: async () => (await import('@cllm/bench')).benchServe,
    },
  ],
  [
    'bench compare',
    {
      summary: 'Measure several servers in turns and compare them',
      load: async () => (await import('@cllm/bench')).benchCompare,
    },
  ],
  [
    'bench policies',
    {
      summary: 'Measure scheduling policies on a model and compare them',
      load: async () => (await import('./commands/bench-model.js')).policies,
    },
  ],
  [
    'bench faults',
    {
      summary: 'Inject faults into a server and print a score card',
      load: async () => (await import('@cllm/bench')).benchFaults,
    },
  ],
  [
    'bench engine',
    {
      summary: 'Measure the engine as llama-bench measures llama.cpp',
      load: async () => (await import('./commands/bench-model.js')).engine,
    },
  ],
  [
    'bench stages',
    {
      summary: 'Tell what each stage up to HTTP adds to the native speed',
      load: async () => (await import('./commands/bench-model.js')).stages,
    },
  ],
  [
    'bench calibrate',
    {
      summary: 'Measure what steps cost, for cllm simulate',
      load: async () => (await import('./commands/bench-model.js')).calibrate,
    },
  ],
  [
    'simulate',
    {
      summary: 'Compare scheduling policies on simulated time',
      load: async () => (await import('./commands/simulate.js')).run,
    },
  ],
  [
    'tune',
    {
      summary: 'Find the scheduling policy for a load and limits, in simulation',
      load: async () => (await import('./commands/bench-model.js')).tune,
    },
  ],
  [
    'model synth',
    {
      summary: "Write a model of another's shape with random weights",
      load: async () => (await import('./commands/model-synth.js')).run,
    },
  ],
])

/** @param group only the commands that begin with this word */
const help = (group?: string): string => {
  const own = [...commands].filter(([name]) => group === undefined || name.startsWith(`${group} `))
  const lines = own.map(([name, { summary }]) => `  ${name.padEnd(17)}${summary}`)
  return `Usage: cllm ${group === undefined ? '' : `${group} `}<command> [flags]

${lines.join('\n')}

\`cllm <command> --help\` explains a command. \`cllm --version\` prints the version.
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

const report = (error: unknown, io: CommandIo): number => {
  if (!CllmError.isInstance(error)) {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
    io.stderr.write(`unexpected error: ${text}\n`)
    return failure
  }
  io.stderr.write(`error: ${error.message}\n`)
  return usageCodes.has(error.code) ? usageError : failure
}

/** Runs the command that a command line names and returns its exit code. */
export const dispatch: RunCommand = async (argv, io) => {
  const [first, second] = argv
  if (first === undefined) {
    io.stderr.write(help())
    return usageError
  }
  if (first === '--help' || first === '-h' || first === 'help') {
    io.stdout.write(help())
    return 0
  }
  if (first === '--version') {
    io.stdout.write(`${version()}\n`)
    return 0
  }
  const isGroup = [...commands.keys()].some((name) => name.startsWith(`${first} `))
  if (isGroup && (second === '--help' || second === '-h')) {
    io.stdout.write(help(first))
    return 0
  }
  const words = isGroup && second !== undefined ? 2 : 1
  const name = argv.slice(0, words).join(' ')
  const command = commands.get(name)
  if (command === undefined) {
    const meant = suggestion(name, commands.keys())
    io.stderr.write(`error: unknown command ${name}${meant}\n\n${help()}`)
    return usageError
  }
  const rest = argv.slice(words)
  try {
    if (command.help !== undefined && rest.some((word) => word === '--help' || word === '-h')) {
      io.stdout.write(await command.help())
      return 0
    }
    const run = await command.load()
    return await run(rest, io)
  } catch (error) {
    return report(error, io)
  }
}
