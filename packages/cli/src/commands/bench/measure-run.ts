import { performance } from 'node:perf_hooks'
import {
  loadName,
  type LoadOptions,
  type MeasuredRun,
  runLoad,
  runResult,
  type Slo,
  type Target,
} from '@cllm/bench'
import type { CommandIo } from '../command-io.js'
import { progressBar } from './output.js'

/** What differs between the runs of one load. */
export interface RunPlace {
  /** From 1. */
  readonly repeat: number
  /** Runs with the same salt send the same prompts. */
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

/** Sends requests that are not measured, to warm up caches and compiled code. */
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

/** A file has a fixed list of texts, so each run continues where the previous one ended. */
function firstItem({ dataset, requests }: LoadOptions, repeat: number): number {
  const isList = dataset.size !== undefined && !dataset.timed
  return isList ? (repeat - 1) * (requests ?? 0) : 0
}
