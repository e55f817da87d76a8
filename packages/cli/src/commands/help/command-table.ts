import { keepHeapSmall } from '../../process/small-heap.js'
import type { RunCommand } from '../command-io.js'

/** A command of `cllm`. */
export interface Command {
  readonly summary: string
  /** Loads the command's module. */
  readonly load: () => Promise<RunCommand>
  /** Loads its help, unless the command prints its help itself; `all` flags, or those that people need first. */
  readonly help?: (all: boolean) => Promise<string>
}

/** @param name - what its module exports it as */
function command<Name extends string = 'run'>(
  summary: string,
  load: () => Promise<{ readonly [name in NoInfer<Name>]: RunCommand }>,
  name = 'run' as Name,
): Command {
  return { summary, load: async () => (await load())[name] }
}

// Modules with several commands.
const keys = async () => await import('../keys.js')
const running = async () => await import('../server/running.js')
const measuring = async () => await import('../hosted/bench-model.js')
const cluster = async () => await import('../cluster/cluster.js')
const native = async () => await import('../native/native-status.js')
const gpu = async () => await import('../native/gpu.js')
const list = async () => await import('../model/list.js')

/** The commands by what they are for, in the order of the help; each by its name on the command line. */
export const commandGroups: Readonly<Record<string, Readonly<Record<string, Command>>>> = {
  'Use a model': {
    run: command(
      'Chat with a model in the terminal, or answer a prompt',
      () => import('../chat/run.js'),
    ),
    launch: command('Start a coding agent against a server', () => import('../launch/launch.js')),
    list: command('List the downloaded models', list),
    show: command(
      "Show a model's shape, size, memory and sampling defaults",
      () => import('../model/show.js'),
    ),
    fit: command(
      'Show the context sizes and slot counts of a model that fit into memory',
      () => import('../model/fit.js'),
    ),
    models: command('List the models of the catalog', list, 'models'),
    pull: command('Download a model', () => import('../model/pull.js')),
    rm: command('Delete a downloaded model', () => import('../model/rm.js')),
  },
  Serve: {
    serve: {
      summary: 'Serve a model over HTTP',
      load: async () => {
        keepHeapSmall()
        return (await import('../serve/serve.js')).serve
      },
      help: async (all) => (await import('./config-help.js')).help(all),
    },
    ps: command('List the loaded models of a running server', running, 'ps'),
    top: command(
      'Watch the slots, queues and speed of a running server',
      () => import('../server/top.js'),
    ),
    why: command('Tell what happened to a request, and why it waited', running, 'why'),
    stop: command('Unload a model from a running server', running, 'stop'),
    config: {
      ...command(
        'Show the effective configuration and the source of each value',
        () => import('../serve/config.js'),
      ),
      help: async (all) => (await import('../serve/config.js')).help(all),
    },
    'keys add': command('Create an API key', keys, 'addKey'),
    'keys list': command('List the API keys', keys, 'listKeys'),
    'keys limit': command('Change the limits of an API key', keys, 'limitKey'),
    'keys revoke': command('Revoke an API key', keys, 'revokeKey'),
  },
  'Measure and simulate scheduling': {
    'bench serve': command(
      'Send load to a server and measure latency and throughput',
      () => import('../bench/bench-serve.js'),
      'benchServe',
    ),
    'bench compare': command(
      'Measure several servers in alternation and compare them',
      () => import('../bench/bench-compare.js'),
      'benchCompare',
    ),
    'bench policies': command(
      'Measure scheduling policies on a model and compare them',
      measuring,
      'policies',
    ),
    'bench engine': command(
      'Measure the engine the way llama-bench measures llama.cpp',
      measuring,
      'engine',
    ),
    'bench calibrate': command(
      'Measure step durations and fit a cost model for cllm simulate',
      measuring,
      'calibrate',
    ),
    simulate: command(
      'Compare scheduling policies in simulated time',
      () => import('../hosted/simulate.js'),
    ),
    tune: command(
      'Find the best scheduling policy for a load and SLO, in simulation',
      measuring,
      'tune',
    ),
  },
  'Write a plug-in': {
    'plugin new': command(
      'Write an order, batching, router or protocol to begin with',
      () => import('../plugin/plugin-new.js'),
    ),
    'plugin test': command(
      "Run the conformance suites and the own test of a plug-in's file",
      () => import('../plugin/plugin-test.js'),
    ),
  },
  'Several machines': {
    worker: {
      summary: 'Serve a model to the fronts of a cluster',
      load: async () => {
        keepHeapSmall()
        return (await import('../cluster/worker.js')).worker
      },
      help: async (all) => (await import('../cluster/worker.js')).help(all),
    },
    cluster: command('List the workers of a cluster with their load', cluster, 'list'),
    'cluster drain': command('Stop a worker after its running requests', cluster, 'drain'),
  },
  'This machine': {
    native: command(
      'Show the llama.cpp library in use, and the measured speed of local builds',
      native,
    ),
    'native build': command(
      'Compile llama.cpp for this machine; it is used if it is faster',
      () => import('../native/native-build.js'),
    ),
    'native remove': command('Delete local builds and use the prebuilt library', native, 'remove'),
    'gpu add': command('Fetch the library for a GPU: cuda or vulkan', gpu, 'add'),
    'gpu remove': command('Delete fetched libraries for GPUs', gpu, 'remove'),
    'model synth': command(
      "Write a model with another model's shape and random weights",
      () => import('../model/model-synth.js'),
    ),
    completion: command(
      'Print a shell script that completes commands and flags',
      () => import('./completion.js'),
    ),
  },
}

/** Every command, by its name on the command line. */
export const commands: ReadonlyMap<string, Command> = new Map(
  Object.values(commandGroups).flatMap((group) => Object.entries(group)),
)
