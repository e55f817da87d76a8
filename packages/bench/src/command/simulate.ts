import { simulationReport } from '../simulate/simulation-report.js'
import { simulatePolicy } from '../simulate/simulate-policy.js'
import { readRecording } from '../simulate/recording-file.js'
import type { SimulatedRun, SimulationResult } from '../simulate/simulation-result.js'
import { simulationHead, simulationTable } from '../simulate/simulation-table.js'
import type { CommandIo } from './command-io.js'
import { exitCode, exitCodeOf } from './exit-code.js'
import { flagsHelp, many, one, parseFlags, showsHelp, toggle } from './flags.js'
import { readPolicy, readSimulation, type PolicyFactory } from './read-simulation.js'
import { simulationFlags } from './simulate-flags.js'
import { writeText } from './write-files.js'

const text = (value: string) => value

const flagTable = {
  policy: many('NAME', "batching+order or a plugin's, options as NAME:{JSON}; repeat it", text),
  ...simulationFlags,
  json: toggle('One JSON line per policy on stdout and nothing else'),
  report: one('FILE', 'Write a self-contained HTML report', text),
  'trace-out': one('FILE', 'Write a timeline for Perfetto or chrome://tracing', text),
} as const

const usage = `Usage: cllm simulate [--trace FILE] --policy NAME [--policy NAME …] [flags]

Serves a load with the real engine and scheduling policies on simulated time: each step takes as long
as a cost model says. The same flags give the same result.

${flagsHelp(flagTable)}
Exit codes: 0 simulated, 1 no request succeeded, 2 wrong flags or files, 130 interrupted.
`

/** The plugins that a command is to load, before it makes policies. */
export type PolicySource = (plugins: readonly string[]) => Promise<PolicyFactory>

/** `cllm simulate` */
export async function simulate(
  argv: string[],
  io: CommandIo,
  policies: PolicySource,
): Promise<number> {
  if (showsHelp(argv, usage, io)) return exitCode.ok
  const flags = parseFlags(argv, flagTable)
  const factory = await policies(flags.plugin)
  const names = flags.policy.length === 0 ? [usualPolicy(flags.replay)] : flags.policy
  const chosen = names.map((name) => readPolicy(name, factory))
  const setup = { ...readSimulation(flags), signal: io.signal }
  if (!flags.json) io.stdout.write(simulationHead(setup))
  const runs: SimulatedRun[] = []
  for (const policy of chosen) {
    if (io.signal.aborted) break
    const run = await simulatePolicy({ ...setup, ...policy })
    runs.push(run)
    if (flags.json) io.stdout.write(`${jsonLine(run.result, flags.replay !== undefined)}\n`)
  }
  if (!flags.json) io.stdout.write(simulationTable(runs.map((run) => run.result)))
  if (flags.report !== undefined) await writeText(flags.report, await simulationReport(runs))
  if (flags['trace-out'] !== undefined) {
    const { simulationTrace } = await import('../simulate/simulation-trace.js')
    await writeText(flags['trace-out'], JSON.stringify(simulationTrace(runs)))
  }
  const stopped = io.signal.aborted ? 'interrupted' : null
  return exitCodeOf(runs.map(({ result }) => ({ ok: result.summary.requests.ok, stopped })))
}

/** That of the recording where there is one. */
function usualPolicy(replay: string | undefined): string {
  if (replay === undefined) return 'adaptive+fcfs'
  const { policy, policyOptions } = readRecording(replay)
  return `${policy}:${JSON.stringify(policyOptions)}`
}

/** A replay's line is the same to the byte each time: it says nothing of how long it took. */
function jsonLine({ wall_ms, ...result }: SimulationResult, isReplay: boolean): string {
  return JSON.stringify(isReplay ? result : { ...result, wall_ms })
}
