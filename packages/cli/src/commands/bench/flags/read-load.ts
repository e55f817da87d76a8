import { randomInt } from 'node:crypto'
import { fitDataset, type LoadOptions, type LoadShape, openDataset } from '@cllm/bench'
import { wrong, type Values } from '../../flags/flags.js'
import type { loadFlags } from './load-flags.js'

/** The values of the flags that describe a load. */
export type LoadFlagValues = Values<typeof loadFlags>

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
  const source = openDataset(flags.dataset ?? 'synthetic', {
    inputLengths: flags['input-len'],
    outputLengths: flags['output-len'],
    sharedPrefix: flags['shared-prefix'],
    prefixGroups: flags['prefix-groups'],
    seed,
  })
  const dataset = fitDataset(source, {
    timeScale: flags['time-scale'],
    lengthScale: flags['length-scale'],
    ...(flags['max-input'] === undefined ? {} : { maxInput: flags['max-input'] }),
    ...(flags['max-output'] === undefined ? {} : { maxOutput: flags['max-output'] }),
  })
  const shapes = (): LoadShape[] => {
    if (rate !== undefined) {
      return rate.map((each) => ({ kind: 'open', rate: each, burstiness, rampMs: ramp }))
    }
    if (concurrency === undefined && dataset.timed) return [{ kind: 'trace' }]
    return (concurrency ?? [1, 8]).map((each) => ({
      kind: 'closed',
      concurrency: each,
      rampMs: ramp,
    }))
  }
  return shapes().map((shape) => {
    const count =
      requests ?? (duration === undefined ? defaultRequests(shape, dataset.size) : undefined)
    return {
      shape,
      dataset,
      ...(count === undefined ? {} : { requests: count }),
      ...(duration === undefined ? {} : { durationMs: duration }),
      seed,
      cancelRate: flags['cancel-rate'],
      slowReaders: flags['slow-readers'],
      slowReadMs: flags['slow-read'],
      ...(flags.tenants === undefined ? {} : { tenants: flags.tenants }),
      temperature: flags.temperature,
      ignoreEos: !flags['allow-eos'],
      timeoutMs: flags.timeout,
    }
  })
}

function defaultRequests(shape: LoadShape, size: number | undefined): number | undefined {
  if (shape.kind === 'trace') return size
  return Math.max(30, shape.kind === 'closed' ? 10 * shape.concurrency : 10 * shape.rate)
}
