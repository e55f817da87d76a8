import { readFileSync } from 'node:fs'
import { CllmError } from '@cllm/core'
import type { CommandIo, RunCommand } from './commands/command-io.js'
import { suggestion } from './config/suggestion.js'

interface Command {
  readonly summary: string
  /** Loads the command's module. */
  readonly load: () => Promise<RunCommand>
  /** Loads its help, unless the command prints its help itself. */
  readonly help?: () => Promise<string>
}

const commands: ReadonlyMap<string, Command> = new Map<string, Command>([
  [
    'serve',
    {
      summary: 'Serve a model over HTTP',
      load: async () => (await import('./commands/serve.js')).serve,
      help: async () => (await import('./commands/help/serve-help.js')).help(),
    },
  ],
  [
    'worker',
    {
      summary: 'Serve a model to the fronts of a cluster',
      load: async () => (await import('./commands/cluster/worker.js')).worker,
      help: async () => (await import('./commands/cluster/worker.js')).help(),
    },
  ],
  [
    'cluster',
    {
      summary: 'List the workers of a cluster with their load',
      load: async () => (await import('./commands/cluster/cluster.js')).list,
    },
  ],
  [
    'cluster drain',
    {
      summary: 'Let a worker finish its requests and end',
      load: async () => (await import('./commands/cluster/cluster.js')).drain,
    },
  ],
  [
    'config',
    {
      summary: 'Show the effective configuration and where each value comes from',
      load: async () => (await import('./commands/config.js')).run,
      help: async () => (await import('./commands/config.js')).help(),
    },
  ],
  [
    'models',
    {
      summary: 'List the models of the catalog',
      load: async () => (await import('./commands/model/models.js')).run,
    },
  ],
  [
    'pull',
    {
      summary: 'Download a model',
      load: async () => (await import('./commands/model/pull.js')).run,
    },
  ],
  [
    'keys add',
    { summary: 'Create an API key', load: async () => (await import('./commands/keys.js')).addKey },
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
      summary: 'Revoke an API key',
      load: async () => (await import('./commands/keys.js')).revokeKey,
    },
  ],
  [
    'bench serve',
    {
      summary: 'Send load to a server and measure latency and throughput',
      load: async () => (await import('./commands/bench/bench-serve.js')).benchServe,
    },
  ],
  [
    'bench compare',
    {
      summary: 'Measure several servers in alternation and compare them',
      load: async () => (await import('./commands/bench/bench-compare.js')).benchCompare,
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
      load: async () => (await import('./commands/bench/bench-faults.js')).benchFaults,
    },
  ],
  [
    'bench engine',
    {
      summary: 'Measure the engine the way llama-bench measures llama.cpp',
      load: async () => (await import('./commands/bench-model.js')).engine,
    },
  ],
  [
    'bench stages',
    {
      summary: 'Measure the time that each stage up to HTTP adds to native',
      load: async () => (await import('./commands/bench-model.js')).stages,
    },
  ],
  [
    'bench calibrate',
    {
      summary: 'Measure step durations and fit a cost model for cllm simulate',
      load: async () => (await import('./commands/bench-model.js')).calibrate,
    },
  ],
  [
    'simulate',
    {
      summary: 'Compare scheduling policies in simulated time',
      load: async () => (await import('./commands/simulate.js')).run,
    },
  ],
  [
    'tune',
    {
      summary: 'Find the best scheduling policy for a load and SLO, in simulation',
      load: async () => (await import('./commands/bench-model.js')).tune,
    },
  ],
  [
    'native',
    {
      summary: 'Show which library computes, and how fast the ones that were built are',
      load: async () => (await import('./commands/native/native-status.js')).run,
    },
  ],
  [
    'native build',
    {
      summary: 'Compile llama.cpp for this machine, offline, and use it where it is faster',
      load: async () => (await import('./commands/native/native-build.js')).run,
    },
  ],
  [
    'native remove',
    {
      summary: 'Remove what was built: the prebuilt library computes again',
      load: async () => (await import('./commands/native/native-remove.js')).run,
    },
  ],
  [
    'model synth',
    {
      summary: "Write a model of another's shape with random weights",
      load: async () => (await import('./commands/model/model-synth.js')).run,
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
/** The exit code for Ctrl-C, as in shells and in the commands of `cllm bench`. */
const interrupted = 130

const report = (error: unknown, io: CommandIo): number => {
  if (io.signal.aborted && error === io.signal.reason) {
    io.stderr.write('interrupted\n')
    return interrupted
  }
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
  const isAlone = commands.has(first) && second?.startsWith('-') === true
  if (isGroup && !isAlone && (second === '--help' || second === '-h')) {
    io.stdout.write(help(first))
    return 0
  }
  const words = isGroup && !isAlone && second !== undefined ? 2 : 1
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
