// The time that each stage adds, from the native forward pass to a stream over HTTP.
// node benchmarks/stages.mjs --model SPEC [--help]
import { spawnSync } from 'node:child_process'
import { modelHost } from '../packages/cli/dist/commands/bench/model-host.js'
import { threadPool } from '../packages/cli/dist/engine/available.js'
import { dispatch } from './lib/command.mjs'
import { printStages } from './stages/print-stages.mjs'

if (process.env.UV_THREADPOOL_SIZE === undefined) {
  // As for the engine of `cllm serve`: the pool's size cannot change later, and Node's slows tokens down.
  const gpu = process.argv[process.argv.indexOf('--gpu') + 1]
  const env = { ...process.env, UV_THREADPOOL_SIZE: threadPool(gpu) }
  process.exitCode =
    spawnSync(process.execPath, process.argv.slice(1), { env, stdio: 'inherit' }).status ?? 1
} else {
  await dispatch(async (argv, io) => await printStages(argv, io, await modelHost(io)))
}
