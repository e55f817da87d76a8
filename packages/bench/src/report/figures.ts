import type { Summary } from '../metrics/summarize.js'

/** A number that tables, plots and comparisons take from a run. */
export interface Figure {
  readonly name: string
  readonly unit: string
  /** Which direction is better. */
  readonly better: 'higher' | 'lower'
  /** Reads it from a run; undefined when it was not measured. */
  readonly of: (summary: Summary) => number | undefined
}

const latency = (
  name: string,
  key: 'ttftMs' | 'tpotMs' | 'itlMs' | 'e2eMs',
  part: 'mean' | 'p50' | 'p90' | 'p95' | 'p99' | 'max',
): Figure => ({
  name: `${name} ${part}`,
  unit: 'ms',
  better: 'lower',
  of: (summary) => summary[key]?.[part],
})

const rate = (name: string, unit: string, of: Figure['of']): Figure => ({
  name,
  unit,
  better: 'higher',
  of,
})

/** The figures by which targets are compared, and that get an interval over repeated runs. */
export const figures: readonly Figure[] = [
  rate('output', 'tokens/s', (summary) => summary.outputTokensPerSecond),
  rate('requests', '/s', (summary) => summary.requestsPerSecond),
  rate('goodput', '/s', (summary) => summary.goodput?.requestsPerSecond),
  latency('TTFT', 'ttftMs', 'p50'),
  latency('TTFT', 'ttftMs', 'p99'),
  latency('ITL', 'itlMs', 'p50'),
  latency('ITL', 'itlMs', 'p99'),
  latency('ITL', 'itlMs', 'max'),
  latency('TPOT', 'tpotMs', 'mean'),
  latency('E2E', 'e2eMs', 'p50'),
  latency('E2E', 'e2eMs', 'p99'),
]
