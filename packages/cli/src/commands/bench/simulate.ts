import {
  readRecording,
  seedsNote,
  type SimulatedRun,
  simulatePolicy,
  simulationContent,
  simulationHead,
  type SimulationResult,
  simulationTable,
} from '@cllm/bench'
import { policiesOf } from '../../plugins/load-registry.js'
import { exitCodeOf, writeFiles } from './output.js'
import { defineCommand } from '../command.js'
import { many, toggle } from '../flags.js'
import { loadFlags } from './flags/load.js'
import { readPolicies, readSimulation, simulationFlags } from './flags/simulation.js'

/** `cllm simulate` */
export const run = defineCommand({
  usage: 'simulate [--trace FILE] --policy NAME [--policy NAME …]',
  doc: `
Runs a load through the real engine and scheduling policies in simulated time; a cost model gives
the duration of each step. The same flags give the same result.`,
  flags: {
    policy: many('NAME', "batching+order or a plugin's, options as NAME:{JSON}; repeatable"),
    ...simulationFlags,
    json: toggle('One JSON line per policy on stdout and nothing else'),
    csv: loadFlags.csv,
    'requests-csv': loadFlags['requests-csv'],
    report: loadFlags.report,
    'trace-out': loadFlags.trace,
  },
  ending: `
Exit codes: 0 simulated, 1 no request succeeded, 2 wrong flags or files, 130 interrupted.
`,
  async run({ flags }, io) {
    const factory = await policiesOf(flags.plugin)
    const names = flags.policy.length === 0 ? [usualPolicy(flags.replay)] : flags.policy
    const chosen = readPolicies(names, factory, flags.slo)
    const setup = { ...readSimulation(flags, factory), signal: io.signal }
    if (!flags.json) io.stdout.write(simulationHead(setup))
    const runs: SimulatedRun[] = []
    for (const policy of chosen) {
      for (let seed = flags.seed; seed < flags.seed + flags.seeds && !io.signal.aborted; seed++) {
        const own = seed === flags.seed ? setup : readSimulation({ ...flags, seed }, factory)
        const run = await simulatePolicy({ ...own, ...policy, signal: io.signal })
        runs.push(run)
        if (flags.json) io.stdout.write(`${jsonLine(run.result, flags.replay !== undefined)}\n`)
      }
    }
    const results = runs.map((run) => run.result)
    if (!flags.json) io.stdout.write(simulationTable(results))
    io.stderr.write(seedsNote(results))
    const first = runs.filter(({ result }) => result.seed === flags.seed)
    await writeFiles(simulationContent(first), { ...flags, trace: flags['trace-out'] }, runs)
    const stopped = io.signal.aborted ? 'interrupted' : null
    return exitCodeOf(runs.map(({ result }) => ({ ok: result.summary.requests.ok, stopped })))
  },
})

/** The recording's policy if there is a recording, otherwise the default. */
function usualPolicy(replay: string | undefined): string {
  if (replay === undefined) return 'adaptive+fcfs'
  const { policy, policyOptions } = readRecording(replay)
  return `${policy}:${JSON.stringify(policyOptions)}`
}

/** A replay's line leaves out `wall_ms`, so that replays give identical bytes. */
const jsonLine = ({ wall_ms, ...result }: SimulationResult, isReplay: boolean): string =>
  JSON.stringify(isReplay ? result : { ...result, wall_ms })
