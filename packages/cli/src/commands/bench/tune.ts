import {
  type Candidate,
  candidates,
  confirm,
  paretoFront,
  policyYaml,
  ranked,
  runsCsv,
  schemaVersion,
  seedsNote,
  simulatePolicy,
  simulationHead,
  type SimulationResult,
  simulationTable,
  winnerOf,
} from '@cllm/bench'
import { defineCommand } from '../command.js'
import { modelHost } from './model-host.js'
import { exitCode, progressBar, writeText } from './output.js'
import { many, one, toggle, wrong, integer } from '../flags.js'
import { loadFlags } from './flags/load.js'
import { modelFlags } from './flags/target.js'
import { readPolicies, readSimulation, simulationFlags } from './flags/simulation.js'

/** `cllm tune` */
export const run = defineCommand({
  usage: 'tune [--trace FILE] --slo ttft:1s,itl:100ms',
  doc: `
Searches for the best scheduling policy for a load in simulation: first all policies with a part of
the load, then the best of them with all of it and with each seed. Prints the policies that no other
policy beats, and the YAML of the best one.`,
  flags: {
    policy: many('NAME', 'Try only this; options as NAME:{JSON}; repeatable (default: all)'),
    ...simulationFlags,
    sample: one('N', 'Requests of the first round', integer(10), '300'),
    keep: one('N', 'Policies that also run the whole load', integer(1), '12'),
    confirm: one('MODEL', 'Measure the best policies on a real server with this model'),
    'confirm-best': one('N', 'Policies to measure with --confirm', integer(1, 20), '2'),
    'confirm-requests': one(
      'N',
      'Requests or programs per policy and round with --confirm',
      integer(1),
      '50',
    ),
    threads: modelFlags.threads,
    gpu: modelFlags.gpu,
    csv: loadFlags.csv,
    json: toggle('One JSON line and nothing else'),
  },
  async run({ flags }, io, openHost: typeof modelHost = modelHost) {
    const { slo, json, sample, keep } = flags
    if (Object.keys(slo).length === 0) throw wrong('--slo is missing, such as ttft:1s,itl:100ms')
    const host = await openHost(io, flags.plugin)
    const setup = readSimulation(flags, host.policies)
    const all: Candidate[] =
      flags.policy.length === 0
        ? candidates(slo, setup.batchSize, host.policies)
        : readPolicies(flags.policy, host.policies, slo)
    if (flags.confirm !== undefined && setup.machines > 1) {
      throw wrong('--confirm: expected one machine, as it measures one server')
    }
    if (!json) io.stdout.write(simulationHead(setup))

    const requests = Math.min(sample, setup.load.requests)
    const first = await simulateAll(all, 'part of the load', requests, 0, 1)
    const inOrder = new Set([...paretoFront(first), ...ranked(first)].flat())
    const best = [...inOrder].slice(0, keep)
    // A first round with the whole load was the first seed's.
    const done = requests === setup.load.requests ? best : []
    const from = done.length === 0 ? 0 : 1
    const more = await simulateAll(best, 'whole load', setup.load.requests, from, flags.seeds)
    const tried = [...first, ...more].map((result) => ({ result }))
    if (flags.csv !== undefined) await writeText(flags.csv, runsCsv(tried))
    if (io.signal.aborted) return exitCode.interrupted
    const unbeaten = paretoFront([...done, ...more])
    const front = unbeaten.flat()
    io.stderr.write(seedsNote(front))
    const { confirm: model, threads, gpu } = flags
    // The seed with the longest request sets the slots' size, which the YAML has.
    const heads = unbeaten.map((own) =>
      own.reduce((a, b) => (b.contextSize > a.contextSize ? b : a)),
    )
    const chosen = model === undefined ? [] : heads.slice(0, flags['confirm-best'])
    const options = { threads, gpu, requests: flags['confirm-requests'], signal: io.signal }
    const confirmed = await confirm(chosen, setup, { model: model ?? '', ...options }, host)
    const winner = winnerOf(heads, confirmed)
    if (winner === undefined) return exitCode.failed
    const yaml = policyYaml(winner, flags.plugin)
    if (json) {
      const tried = all.length
      const line = { schema: schemaVersion, kind: 'tune', tried, front, confirmed, yaml }
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

    /** Simulates this many requests with the seeds from `from` up to `to`, counted from `--seed`. */
    async function simulateAll(
      all: readonly Candidate[],
      name: string,
      requests: number,
      from: number,
      to: number,
    ) {
      const progress = progressBar(io.stderr, name, all.length * (to - from))
      const results: SimulationResult[] = []
      for (let at = from; at < to && !io.signal.aborted; at++) {
        const seed = flags.seed + at
        const own = at === 0 ? setup : readSimulation({ ...flags, seed }, host.policies)
        const load = { ...own.load, requests }
        for (const { policy, policyOptions } of all) {
          if (io.signal.aborted) break
          const createPolicy = () => host.policies.createPolicy(policy, policyOptions)
          const options = { policy, policyOptions, createPolicy, load, signal: io.signal }
          results.push((await simulatePolicy({ ...own, ...options })).result)
          progress.step()
        }
      }
      progress.stop()
      return results
    }
  },
})
