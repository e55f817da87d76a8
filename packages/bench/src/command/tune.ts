import { schemaVersion } from '../report/run-result.js'
import { simulatePolicy } from '../simulate/simulate-policy.js'
import type { SimulationResult } from '../simulate/simulation-result.js'
import { simulationHead, simulationTable } from '../simulate/simulation-table.js'
import { candidates, type Candidate } from '../tune/candidates.js'
import { confirm, winnerOf } from '../tune/confirm.js'
import { distinct, paretoFront, ranked } from '../tune/pareto.js'
import { policyYaml } from '../tune/policy-yaml.js'
import type { CommandIo } from './command-io.js'
import { exitCode } from './exit-code.js'
import { flagsHelp, many, one, parseFlags, showsHelp, toggle, wrong } from './flags.js'
import { modelFlags, type ModelHost } from './model-flags.js'
import { progressBar } from './progress.js'
import { readPolicy, readSimulation, type SimulationSetup } from './read-simulation.js'
import { simulationFlags } from './simulate-flags.js'
import { integer } from './values.js'

const flagTable = {
  policy: many(
    'NAME',
    'Try only these, options as NAME:{JSON} (default: all built-in ones)',
    String,
  ),
  ...simulationFlags,
  sample: one('N', 'Requests of the first round (default 300)', integer(10), 300),
  keep: one('N', 'Policies that get to the whole load (default 12)', integer(1), 12),
  confirm: one('MODEL', 'Serve the best ones for real with this model', String),
  'confirm-best': one('N', 'How many of them (default 2)', integer(1, 20), 2),
  'confirm-requests': one('N', 'With so many requests (default 50)', integer(1), 50),
  threads: modelFlags.threads,
  gpu: modelFlags.gpu,
  json: toggle('One JSON line and nothing else'),
} as const

const usage = `Usage: cllm tune [--trace FILE] --slo ttft:1s,itl:100ms [flags]

Searches the scheduling policy for a load in simulation: all policies with a part of the load, the best
of them with all of it. Prints those that no other one beats, and the YAML of the best.

${flagsHelp(flagTable)}`

/** `cllm tune` */
export async function tune(
  argv: string[],
  io: CommandIo,
  hostWith: (plugins: readonly string[]) => Promise<ModelHost>,
): Promise<number> {
  if (showsHelp(argv, usage, io)) return exitCode.ok
  const flags = parseFlags(argv, flagTable)
  const { slo, json, sample, keep } = flags
  if (Object.keys(slo).length === 0) throw wrong('--slo is missing, such as ttft:1s,itl:100ms')
  const host = await hostWith(flags.plugin)
  const setup = { ...readSimulation(flags), signal: io.signal }
  const all: Candidate[] =
    flags.policy.length === 0
      ? candidates(slo, setup.batchSize)
      : flags.policy.map((text) => {
          const { policy, policyOptions = {} } = readPolicy(text, host.policies)
          return { policy, policyOptions }
        })
  if (!json) io.stdout.write(simulationHead(setup))

  const requests = Math.min(sample, setup.load.requests)
  const part = { ...setup, load: { ...setup.load, requests } }
  const first = await simulateAll(all, part, host, io, 'part of the load')
  const best = [
    ...new Set([...paretoFront(first).slice(0, keep), ...ranked(distinct(first))]),
  ].slice(0, keep)
  const second =
    requests === setup.load.requests ? best : await simulateAll(best, setup, host, io, 'whole load')
  if (io.signal.aborted) return exitCode.interrupted
  const front = paretoFront(second)
  const { confirm: model, threads, gpu } = flags
  const chosen = model === undefined ? [] : front.slice(0, flags['confirm-best'])
  const options = { threads, gpu, requests: flags['confirm-requests'], signal: io.signal }
  const confirmed = await confirm(chosen, setup, { model: model ?? '', ...options }, host)
  const winner = winnerOf(front, confirmed)
  if (winner === undefined) return exitCode.failed
  const yaml = policyYaml(winner, flags.plugin)
  if (json) {
    const line = { schema: schemaVersion, kind: 'tune', tried: all.length, front, confirmed, yaml }
    io.stdout.write(`${JSON.stringify(line)}\n`)
    return exitCode.ok
  }
  io.stdout.write(`${all.length} tried; not beaten by any other:\n${simulationTable(front)}`)
  for (const { name, goodput, ttftP99Ms, itlP99Ms } of confirmed) {
    io.stdout.write(
      `confirmed: ${name}: goodput ${(100 * goodput).toFixed(1)} %, TTFT p99 ${ttftP99Ms.toFixed(0)} ms, ITL p99 ${itlP99Ms.toFixed(0)} ms\n`,
    )
  }
  if (io.signal.aborted) return exitCode.interrupted
  io.stdout.write(`The best by goodput, as YAML:\n\n${yaml}`)
  return exitCode.ok
}

async function simulateAll(
  all: readonly Candidate[],
  setup: SimulationSetup,
  host: ModelHost,
  io: CommandIo,
  name: string,
): Promise<SimulationResult[]> {
  const progress = progressBar(io.stderr, name, all.length)
  const results: SimulationResult[] = []
  for (const { policy, policyOptions } of all) {
    if (io.signal.aborted) break
    const createPolicy = () => host.policies.createPolicy(policy, policyOptions)
    const { result } = await simulatePolicy({ ...setup, policy, policyOptions, createPolicy })
    results.push(result)
    progress.step()
  }
  progress.stop()
  return results
}
