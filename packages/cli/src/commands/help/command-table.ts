import { setFlagsFromString } from 'node:v8'
import type { RunCommand } from '../command.js'

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

/**
 * Loads a module that serves, and keeps V8's memory for new objects as small as it is at the start, a few MiB: it
 * otherwise grows to 48 MiB and stays. V8 reads this flag each time it would grow it, so that it can be set in a
 * running process.
 */
function withSmallHeap<Module>(load: () => Promise<Module>): () => Promise<Module> {
  return async () => {
    setFlagsFromString('--semi-space-growth-factor=1')
    return await load()
  }
}

// The modules of the commands.
const chat = async () => await import('../chat/run.js')
const launch = async () => await import('../launch.js')
const downloads = async () => await import('../model/downloads.js')
const facts = async () => await import('../model/facts.js')
const synth = async () => await import('../model/model-synth.js')
const serve = async () => await import('../serve/serve.js')
const config = async () => await import('../serve/config.js')
const running = async () => await import('../server/running.js')
const keys = async () => await import('../keys.js')
const benchServe = async () => await import('../bench/bench-serve.js')
const benchPolicies = async () => await import('../bench/bench-policies.js')
const benchEngine = async () => await import('../bench/bench-engine.js')
const calibrate = async () => await import('../bench/calibrate.js')
const simulate = async () => await import('../bench/simulate.js')
const tune = async () => await import('../bench/tune.js')
const pluginNew = async () => await import('../plugin/plugin-new.js')
const pluginTest = async () => await import('../plugin/plugin-test.js')
const worker = async () => await import('../cluster/worker.js')
const cluster = async () => await import('../cluster/cluster.js')
const native = async () => await import('../native/native-status.js')
const nativeBuild = async () => await import('../native/native-build.js')
const gpu = async () => await import('../native/gpu.js')
const completion = async () => await import('./completion.js')

/** The commands by what they are for, in the order of the help; each by its name on the command line. */
export const commandGroups: Readonly<Record<string, Readonly<Record<string, Command>>>> = {
  'Use a model': {
    run: command('Chat with a model in the terminal, or answer a prompt', chat),
    launch: command('Start a coding agent against a server', launch),
    list: command('List the downloaded models', downloads, 'list'),
    show: command("Show a model's shape, size, memory and sampling defaults", facts, 'show'),
    fit: command(
      'Show the context sizes and slot counts of a model that fit into memory',
      facts,
      'fit',
    ),
    models: command('List the models of the catalog', downloads, 'models'),
    pull: command('Download a model', downloads, 'pull'),
    rm: command('Delete a downloaded model', downloads, 'remove'),
  },
  Serve: {
    serve: {
      ...command('Serve a model over HTTP', withSmallHeap(serve)),
      help: async (all) => (await import('./config-help.js')).help(all),
    },
    ps: command('List the loaded models of a running server', running, 'ps'),
    top: command('Watch the slots, queues and speed of a running server', running, 'top'),
    why: command('Tell what happened to a request, and why it waited', running, 'why'),
    stop: command('Unload a model from a running server', running, 'stop'),
    config: {
      ...command('Show the effective configuration and the source of each value', config),
      help: async (all) => (await config()).help(all),
    },
    'keys add': command('Create an API key', keys, 'addKey'),
    'keys list': command('List the API keys', keys, 'listKeys'),
    'keys limit': command('Change the limits of an API key', keys, 'limitKey'),
    'keys revoke': command('Revoke an API key', keys, 'revokeKey'),
  },
  'Measure and simulate scheduling': {
    'bench serve': command('Send load to a server and measure latency and throughput', benchServe),
    'bench compare': command(
      'Measure several servers in alternation and compare them',
      benchServe,
      'compare',
    ),
    'bench policies': command(
      'Measure scheduling policies on a model and compare them',
      benchPolicies,
    ),
    'bench engine': command(
      'Measure the engine the way llama-bench measures llama.cpp',
      benchEngine,
    ),
    'bench calibrate': command(
      'Measure step durations and fit a cost model for cllm simulate',
      calibrate,
    ),
    simulate: command('Compare scheduling policies in simulated time', simulate),
    tune: command('Find the best scheduling policy for a load and SLO, in simulation', tune),
  },
  'Write a plug-in': {
    'plugin new': command('Write an order, batching, router or protocol to begin with', pluginNew),
    'plugin test': command(
      "Run the conformance suites and the own test of a plug-in's file",
      pluginTest,
    ),
  },
  'Several machines': {
    worker: {
      ...command('Serve a model to the fronts of a cluster', withSmallHeap(worker)),
      help: async (all) => (await worker()).help(all),
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
      nativeBuild,
    ),
    'native remove': command('Delete local builds and use the prebuilt library', native, 'remove'),
    'gpu add': command('Fetch the library for a GPU: cuda or vulkan', gpu, 'add'),
    'gpu remove': command('Delete fetched libraries for GPUs', gpu, 'remove'),
    'model synth': command("Write a model with another model's shape and random weights", synth),
    completion: command('Print a shell script that completes commands and flags', completion),
  },
}

/** Every command, by its name on the command line. */
export const commands: ReadonlyMap<string, Command> = new Map(
  Object.values(commandGroups).flatMap((group) => Object.entries(group)),
)
