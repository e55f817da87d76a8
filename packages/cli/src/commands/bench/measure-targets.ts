import { performance } from 'node:perf_hooks'
import {
  firstRequests,
  loadName,
  type LoadOptions,
  type MeasuredRun,
  runLoad,
  runResult,
  type Slo,
  type Target,
  type ComparedLoad,
  type CompareResult,
  compareRuns,
  compareTable,
  machineWarnings,
  type MachineWatch,
  type RunResult,
  runTable,
  schemaVersion,
} from '@cllm/bench'
import { entryOf } from '@cllm/core'
import type { CommandIo } from '../command.js'
import { type FileFlag, progressBar, exitCodeOf, writeFiles } from './output.js'
import type { Values } from '../flags.js'
import type { compareFlags } from './flags/load.js'

/**
 * Measures one run, with a progress bar.
 *
 * @param repeat - its number among the runs of the load, from 1
 * @param salt - runs with the same one send the same prompts
 */
export async function measureRun(
  target: Target,
  load: LoadOptions,
  { repeat, salt, slo }: { readonly repeat: number; readonly salt: string; readonly slo: Slo },
  io: CommandIo,
): Promise<MeasuredRun> {
  const name = `${target.name}, ${loadName(load.shape)}, run ${repeat}`
  // How many requests programs have is not known.
  const total = load.dataset.tools === undefined ? load.requests : undefined
  const progress = progressBar(io.stderr, name, total)
  const startedAt = new Date(performance.timeOrigin + performance.now()).toISOString()
  const measured = await runLoad(target, load, {
    salt,
    firstItem: firstItem(load, repeat),
    signal: io.signal,
    onDone: progress.step,
  })
  progress.stop()
  return runResult({ target, load, repeat, startedAt, slo, measured })
}

/** Sends requests that are not measured, to warm up caches and compiled code. */
export async function warmUp(target: Target, load: LoadOptions, requests: number, io: CommandIo) {
  if (requests === 0) return
  const shape = { kind: 'closed', concurrency: Math.min(requests, 4), rampMs: 0 } as const
  const run = { salt: 'warm-up', firstItem: 0, signal: io.signal }
  const first = { ...load, shape, requests, dataset: firstRequests(load.dataset) }
  await runLoad(target, { ...first, durationMs: undefined, cancelRate: 0 }, run)
}

/** A file has a fixed list of texts, so each run continues where the previous one ended. */
function firstItem({ dataset, requests }: LoadOptions, repeat: number): number {
  const isList = dataset.size !== undefined && !dataset.timed
  return isList ? (repeat - 1) * (requests ?? 0) : 0
}

type CompareFlag = 'json' | 'rounds' | 'slo' | 'warmup' | 'pause' | FileFlag

/** The targets to compare, and their loads. */
interface Comparison {
  /** Title of the report. */
  readonly title: string
  readonly targets: readonly Target[]
  readonly loads: readonly LoadOptions[]
  readonly watch: MachineWatch
  /** Wraps each run of a target. Default: only runs it. */
  readonly around?: (target: Target, run: () => Promise<MeasuredRun>) => Promise<MeasuredRun>
}

/**
 * Runs the same loads on each target, alternating between them; prints and writes the results.
 *
 * @returns the exit code
 */
export async function compareTargets(
  { title, targets, loads, watch, around = (_, run) => run() }: Comparison,
  flags: Pick<Values<typeof compareFlags>, CompareFlag>,
  io: CommandIo,
): Promise<number> {
  const { json, rounds, slo, warmup, pause } = flags
  const seed = loads[0]?.seed ?? 0
  if (!json) io.stdout.write(`seed ${seed}\n\n`)
  for (const target of targets) await warmUp(target, loads[0] as LoadOptions, warmup, io)

  const all: MeasuredRun[] = []
  const compared: ComparedLoad[] = []
  const isOver = () => (all.at(-1)?.result.stopped ?? null) !== null
  for (const [level, load] of loads.entries()) {
    const byTarget = new Map(targets.map(({ name }) => [name, [] as RunResult[]]))
    for (let repeat = 1; repeat <= rounds && !isOver(); repeat++) {
      const inTurn = repeat % 2 === 1 ? targets : targets.toReversed()
      for (const target of inTurn) {
        if (isOver()) break
        await watch.pause(pause)
        const salt = `${level}/${repeat}${sameServer(target, targets)}`
        const run = await around(target, () => measureRun(target, load, { repeat, salt, slo }, io))
        all.push(run)
        byTarget.get(target.name)?.push(run.result)
        if (json) io.stdout.write(`${JSON.stringify(run.result)}\n`)
        // The comparison's table leaves out incomplete rounds.
        else if (run.result.stopped !== null) io.stdout.write(runTable(run.result))
      }
    }
    const complete = completeRounds(byTarget)
    if (complete !== undefined) {
      const result = compareRuns(load.shape, complete)
      compared.push(result)
      if (!json) io.stdout.write(compareTable(result))
    }
    if (isOver()) break
  }
  const machine = watch.state()
  const runs = all.map(({ result }) => result)
  const warnings = [...machineWarnings(machine), ...runWarnings(runs)]
  const result: CompareResult = {
    schema: schemaVersion,
    kind: 'compare',
    seed,
    baseline: targets[0]?.name ?? '',
    rounds,
    machine,
    loads: compared,
    warnings,
  }
  io.stdout.write(
    json ? `${JSON.stringify(result)}\n` : warnings.map((text) => `warning: ${text}\n`).join(''),
  )
  await writeFiles({ runs: all, compared: result, title }, flags)
  return exitCodeOf(runs.map(({ summary, stopped }) => ({ ok: summary.requests.ok, stopped })))
}

/** Salt for a server with two names: its cache must not hold the prompts of the other name. */
function sameServer(target: Target, targets: readonly Target[]): string {
  const twins = targets.filter(({ url }) => url.href === target.url.href)
  return twins.length > 1 ? `/${target.name}` : ''
}

/** The rounds that every target completed; undefined when there is none. */
function completeRounds(byTarget: ReadonlyMap<string, readonly RunResult[]>) {
  const whole = (runs: readonly RunResult[]) => runs.filter(({ stopped }) => stopped === null)
  const rounds = Math.min(...Array.from(byTarget.values(), (runs) => whole(runs).length))
  if (rounds === 0) return undefined
  return new Map([...byTarget].map(([name, runs]) => [name, whole(runs).slice(0, rounds)]))
}

/** The runs' warnings, each kind once per target and load, with the numbers of its first one. */
function runWarnings(runs: readonly RunResult[]): string[] {
  const kinds = new Map<string, { readonly first: string; count: number }>()
  for (const { target, load, warnings, failures } of runs) {
    const failed = Object.entries(failures).map(([kind, text]) => `failed with ${kind}: ${text}`)
    for (const warning of [...warnings, ...failed]) {
      const first = `${target.name}, ${loadName(load)}: ${warning}`
      const kind = first.replaceAll(/\d+(\.\d+)?/g, '#')
      entryOf(kinds, kind, () => ({ first, count: 0 })).count++
    }
  }
  return [...kinds.values()].map(({ first, count }) =>
    count === 1 ? first : `${first} (and in ${count - 1} more runs)`,
  )
}
