import { cpus } from 'node:os'
import type { LoadOptions, LoadShape, Target } from '../load/load-options.js'
import type { LoadResult, Stopped } from '../load/run-load.js'
import { failuresOf, type RunRecord, type Slo } from '../metrics/run-record.js'
import { summarize, type Summary } from '../metrics/summarize.js'
import { warningsOf } from '../metrics/warnings.js'
import type { StepBucket } from './step-history.js'

/** Version of all commands' JSON; raised when a field changes its meaning or is removed. */
export const schemaVersion = 1

/** One run: one line of `--json`. */
export interface RunResult {
  readonly schema: typeof schemaVersion
  readonly kind: 'run'
  readonly target: {
    readonly name: string
    readonly url: string
    readonly api: string
    readonly model: string | null
  }
  readonly load: LoadShape
  readonly dataset: string
  /** Counts runs of the same load, from 1. */
  readonly repeat: number
  readonly seed: number
  /** When it began, ISO 8601. */
  readonly startedAt: string
  readonly client: { readonly node: string; readonly cpu: string; readonly cores: number }
  /** Why it ended early, or null. */
  readonly stopped: Stopped | null
  /** Event loop delay of this process, 99th percentile in milliseconds. */
  readonly eventLoopP99Ms: number
  readonly summary: Summary
  /** The message of the first failure of each kind. */
  readonly failures: Readonly<Record<string, string>>
  readonly warnings: readonly string[]
}

/** A run and its requests. */
export interface MeasuredRun {
  readonly result: RunResult
  readonly records: readonly RunRecord[]
  /** The composition of the engine's steps, if the command started the engine. */
  readonly steps?: readonly StepBucket[]
}

/** The inputs of a run's result. */
export interface RunParts extends Pick<RunResult, 'repeat' | 'startedAt'> {
  readonly target: Target
  readonly load: LoadOptions
  readonly slo: Slo
  readonly measured: LoadResult
}

/** Builds a run's result. */
export function runResult(parts: RunParts): MeasuredRun {
  const { target, load, repeat, startedAt, slo, measured } = parts
  const { records, stopped = null, laps, eventLoopP99Ms } = measured
  const summary = summarize(records, slo)
  const { name, url, api, model = null } = target
  return {
    records,
    result: {
      schema: schemaVersion,
      kind: 'run',
      target: { name, url: url.href, api: api.name, model },
      load: load.shape,
      dataset: load.dataset.name,
      repeat,
      seed: load.seed,
      startedAt,
      client: { node: process.version, cpu: cpus()[0]?.model ?? 'unknown', cores: cpus().length },
      stopped,
      eventLoopP99Ms,
      summary,
      failures: failuresOf(records),
      warnings: warningsOf(records, summary, eventLoopP99Ms, laps),
    },
  }
}

/** A load in a few words: `8 clients`, `5 requests/s`, `trace`. */
export function loadName(shape: LoadShape): string {
  if (shape.kind === 'trace') return 'trace'
  if (shape.kind === 'open') return `${shape.rate} requests/s`
  return shape.concurrency === 1 ? '1 client' : `${shape.concurrency} clients`
}
