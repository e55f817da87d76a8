import { keepHeapSmall } from '../../process/small-heap.js'
import type { RunCommand } from '../command-io.js'

/** A command of `cllm`. */
export interface Command {
  readonly summary: string
  /** Loads the command's module. */
  readonly load: () => Promise<RunCommand>
  /** Loads its help, unless the command prints its help itself. */
  readonly help?: () => Promise<string>
}

const table: Readonly<Record<string, Command>> = {
  serve: {
    summary: 'Serve a model over HTTP',
    load: async () => {
      keepHeapSmall()
      return (await import('../serve/serve.js')).serve
    },
    help: async () => (await import('./serve-help.js')).help(),
  },
  worker: {
    summary: 'Serve a model to the fronts of a cluster',
    load: async () => {
      keepHeapSmall()
      return (await import('../cluster/worker.js')).worker
    },
    help: async () => (await import('../cluster/worker.js')).help(),
  },
  cluster: {
    summary: 'List the workers of a cluster with their load',
    load: async () => (await import('../cluster/cluster.js')).list,
  },
  'cluster drain': {
    summary: 'Stop a worker after its running requests',
    load: async () => (await import('../cluster/cluster.js')).drain,
  },
  run: {
    summary: 'Chat with a model in the terminal, or answer a prompt',
    load: async () => (await import('../chat/run.js')).run,
  },
  list: {
    summary: 'List the downloaded models',
    load: async () => (await import('../model/list.js')).run,
  },
  show: {
    summary: "Show a model's shape, size, memory and sampling defaults",
    load: async () => (await import('../model/show.js')).run,
  },
  fit: {
    summary: 'Show the context sizes and slot counts of a model that fit into memory',
    load: async () => (await import('../model/fit.js')).run,
  },
  rm: {
    summary: 'Delete a downloaded model',
    load: async () => (await import('../model/rm.js')).run,
  },
  models: {
    summary: 'List the models of the catalog',
    load: async () => (await import('../model/models.js')).run,
  },
  pull: {
    summary: 'Download a model',
    load: async () => (await import('../model/pull.js')).run,
  },
  ps: {
    summary: 'List the loaded models of a running server',
    load: async () => (await import('../server/ps.js')).run,
  },
  stop: {
    summary: 'Unload a model from a running server',
    load: async () => (await import('../server/stop.js')).run,
  },
  top: {
    summary: 'Watch the slots, queues and speed of a running server',
    load: async () => (await import('../server/top.js')).run,
  },
  launch: {
    summary: 'Start a coding agent against a server',
    load: async () => (await import('../launch/launch.js')).run,
  },
  config: {
    summary: 'Show the effective configuration and the source of each value',
    load: async () => (await import('../config.js')).run,
    help: async () => (await import('../config.js')).help(),
  },
  'keys add': {
    summary: 'Create an API key',
    load: async () => (await import('../keys.js')).addKey,
  },
  'keys list': {
    summary: 'List the API keys',
    load: async () => (await import('../keys.js')).listKeys,
  },
  'keys limit': {
    summary: 'Change the limits of an API key',
    load: async () => (await import('../keys.js')).limitKey,
  },
  'keys revoke': {
    summary: 'Revoke an API key',
    load: async () => (await import('../keys.js')).revokeKey,
  },
  'bench serve': {
    summary: 'Send load to a server and measure latency and throughput',
    load: async () => (await import('../bench/bench-serve.js')).benchServe,
  },
  'bench compare': {
    summary: 'Measure several servers in alternation and compare them',
    load: async () => (await import('../bench/bench-compare.js')).benchCompare,
  },
  'bench policies': {
    summary: 'Measure scheduling policies on a model and compare them',
    load: async () => (await import('../hosted/bench-model.js')).policies,
  },
  'bench engine': {
    summary: 'Measure the engine the way llama-bench measures llama.cpp',
    load: async () => (await import('../hosted/bench-model.js')).engine,
  },
  'bench calibrate': {
    summary: 'Measure step durations and fit a cost model for cllm simulate',
    load: async () => (await import('../hosted/bench-model.js')).calibrate,
  },
  simulate: {
    summary: 'Compare scheduling policies in simulated time',
    load: async () => (await import('../hosted/simulate.js')).run,
  },
  tune: {
    summary: 'Find the best scheduling policy for a load and SLO, in simulation',
    load: async () => (await import('../hosted/bench-model.js')).tune,
  },
  native: {
    summary: 'Show the llama.cpp library in use, and the measured speed of local builds',
    load: async () => (await import('../native/native-status.js')).run,
  },
  'native build': {
    summary: 'Compile llama.cpp for this machine, offline; it is used if it is faster',
    load: async () => (await import('../native/native-build.js')).run,
  },
  'native remove': {
    summary: 'Delete local builds and use the prebuilt library',
    load: async () => (await import('../native/native-remove.js')).run,
  },
  'model synth': {
    summary: "Write a model with another model's shape and random weights",
    load: async () => (await import('../model/model-synth.js')).run,
  },
  completion: {
    summary: 'Print a shell script that completes commands and flags',
    load: async () => (await import('./completion.js')).run,
  },
}

/** Every command, by its name on the command line. */
export const commands: ReadonlyMap<string, Command> = new Map(Object.entries(table))
