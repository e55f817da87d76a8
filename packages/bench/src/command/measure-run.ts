import { performance } from 'node:perf_hooks'
import type { LoadOptions } from '../load/load-options.js'
import { runLoad } from '../load/run-load.js'
import type { Target } from '../load/target.js'
import type { Slo } from '../metrics/slo.js'
import { loadName, runResult, type MeasuredRun } from '../report/run-result.js'
import type { CommandIo } from './command-io.js'
import { progressBar } from './progress.js'

/** What makes a run different from others of its load. */
export interface RunPlace {
  /** From 1. */
  readonly repeat: number
  /** Prompts are the same where this is the same. */
  readonly salt: string
  readonly slo: Slo
}

/** Measures one run, with a progress bar. */
export async function measureRun(
  target: Target,
  load: LoadOptions,
  { repeat, salt, slo }: RunPlace,
  io: CommandIo,
): Promise<MeasuredRun> {
  const name = `${target.name}, ${loadName(load.shape)}, run ${repeat}`
  const progress = progressBar(io.stderr, name, load.requests)
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

/** Sends some requests that do not count, so that caches and compiled code are warm. */
export async function warmUp(
  target: Target,
  load: LoadOptions,
  requests: number,
  io: CommandIo,
): Promise<void> {
  if (requests === 0) return
  const shape = { kind: 'closed', concurrency: Math.min(requests, 4), rampMs: 0 } as const
  const run = { salt: 'warm-up', firstItem: 0, signal: io.signal }
  await runLoad(target, { ...load, shape, requests, durationMs: undefined, cancelRate: 0 }, run)
}

/** Texts of a file cannot be made anew: later runs go on where the ones before ended. */
function firstItem({ dataset, requests }: LoadOptions, repeat: number): number {
  const isList = dataset.size !== undefined && !dataset.timed
  return isList ? (repeat - 1) * (requests ?? 0) : 0
}
