import { randomInt } from 'node:crypto'
import { defined } from '@cllm/core'
import {
  type Dataset,
  fitDataset,
  type LoadOptions,
  type LoadShape,
  openDataset,
} from '@cllm/bench'
import { wrong, type Values } from '../../flags/flags.js'
import type { datasetFlags, loadFlags } from './load-flags.js'

/** The values of the flags that describe a load. */
export type LoadFlagValues = Values<typeof loadFlags>

type DatasetFlags = Values<typeof datasetFlags> & Pick<LoadFlagValues, 'input-len' | 'output-len'>

/**
 * The loads that the flags describe, one per level of concurrency or rate.
 *
 * @throws `invalid_configuration` for contradictory flags, `invalid_dataset` for an invalid file
 */
export function readLoads(flags: LoadFlagValues): LoadOptions[] {
  const { concurrency, rate, requests, duration, ramp, burstiness } = flags
  if (concurrency !== undefined && rate !== undefined) {
    throw wrong('--concurrency and --rate: expected one of them, got both')
  }
  const seed = flags.seed ?? randomInt(2 ** 31)
  const dataset = readDataset(flags.dataset ?? 'synthetic', flags, seed)
  const shapes = (): LoadShape[] => {
    if (rate !== undefined) {
      return rate.map((each) => ({ kind: 'open', rate: each, burstiness, rampMs: ramp }))
    }
    if (concurrency === undefined && dataset.timed) return [{ kind: 'trace' }]
    const levels = concurrency ?? [1, 8]
    return levels.map((each) => ({ kind: 'closed', concurrency: each, rampMs: ramp }))
  }
  return shapes().map((shape) => {
    const count =
      requests ?? (duration === undefined ? defaultRequests(shape, dataset.size) : undefined)
    return {
      shape,
      dataset,
      ...defined({ requests: count, durationMs: duration, tenants: flags.tenants }),
      seed,
      cancelRate: flags['cancel-rate'],
      slowReaders: flags['slow-readers'],
      slowReadMs: flags['slow-read'],
      temperature: flags.temperature,
      ignoreEos: !flags['allow-eos'],
      ownCalls: flags['own-calls'],
      timeoutMs: flags.timeout,
    }
  })
}

function defaultRequests(shape: LoadShape, size: number | undefined): number | undefined {
  if (shape.kind === 'trace') return size
  return Math.max(30, shape.kind === 'closed' ? 10 * shape.concurrency : 10 * shape.rate)
}

/** A dataset with the lengths that the flags say; they scale and cut the items of a file. */
export const readDataset = (spec: string, flags: DatasetFlags, seed: number): Dataset =>
  fitted(
    openDataset(spec, {
      inputLengths: flags['input-len'],
      outputLengths: flags['output-len'],
      sharedPrefix: flags['shared-prefix'],
      prefixGroups: flags['prefix-groups'],
      seed,
    }),
    flags,
  )

/** The same dataset, scaled and cut. */
export const fitted = (dataset: Dataset, flags: DatasetFlags): Dataset =>
  fitDataset(dataset, {
    timeScale: flags['time-scale'],
    lengthScale: flags['length-scale'],
    ...defined({ maxInput: flags['max-input'], maxOutput: flags['max-output'] }),
  })
