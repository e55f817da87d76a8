import { distributionOf } from '../statistics/distribution.js'
import { e2eOf, gapsOf, tpotOf, ttftOf, type RunRecord } from './run-record.js'

/** The latency limits for goodput, in milliseconds. */
export interface Slo {
  readonly ttft?: number
  /** The 99th percentile of the request's own times between chunks. */
  readonly itl?: number
  readonly tpot?: number
  readonly e2e?: number
}

const figures: Readonly<Record<keyof Slo, (record: RunRecord) => number | undefined>> = {
  ttft: ttftOf,
  itl: (record) => distributionOf(gapsOf(record))?.p99,
  tpot: tpotOf,
  e2e: e2eOf,
}

/** A client that reads slowly makes these longer than the server does. */
const ofReading: ReadonlySet<keyof Slo> = new Set(['itl', 'tpot', 'e2e'] as const)

/**
 * True when a request succeeded within every limit. Without a second token, it meets any ITL; of a slow reader only
 * the TTFT counts.
 */
export function meetsSlo(record: RunRecord, slo: Slo): boolean {
  if (record.outcome !== 'ok') return false
  return (Object.keys(slo) as (keyof Slo)[]).every((name) => {
    const limit = slo[name]
    if (record.slowReader && ofReading.has(name)) return true
    return limit === undefined || (figures[name](record) ?? 0) <= limit
  })
}
