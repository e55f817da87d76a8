import type { Summary } from '../metrics/summarize.js'
import type { Estimate } from '../statistics/statistics.js'

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
  key: 'ttftMs' | 'tpotMs' | 'itlMs' | 'e2eMs' | 'programMs' | 'aloneMs',
  part: 'mean' | 'p50' | 'p90' | 'p95' | 'p99' | 'max',
): Figure => ({
  name: `${name} ${part}`,
  unit: 'ms',
  better: 'lower',
  of: (summary) => summary[key]?.[part],
})

const rate = (name: string, unit: string, of: Figure['of']): Figure => {
  return { name, unit, better: 'higher', of }
}

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
  latency('program', 'programMs', 'mean'),
  latency('program', 'programMs', 'p99'),
  latency('chat beside', 'aloneMs', 'mean'),
  latency('chat beside', 'aloneMs', 'p99'),
]

/** The texts that are there: those whose condition holds. */
export const textsOf = (...texts: readonly (string | false)[]): string[] =>
  texts.filter((text) => text !== false)

/** Formats a number with its significant digits: 1,234 or 12.3 or 0.123; a whole one, such as a count, has no others. */
export function formatNumber(value: number | undefined): string {
  if (value === undefined || !Number.isFinite(value)) return '–'
  const digits = [100, 10, 1].filter((limit) => Math.abs(value) < limit).length
  return value.toLocaleString('en-US', {
    minimumFractionDigits: Number.isInteger(value) ? 0 : digits,
    maximumFractionDigits: digits,
  })
}

/** An estimate with its interval: `12.3 (11.9–12.7)`. */
export function formatEstimate(value: Estimate | undefined): string {
  if (value === undefined) return '–'
  const middle = formatNumber(value.mean)
  if (value.low === undefined || value.high === undefined) return middle
  return `${middle} (${formatNumber(value.low)} to ${formatNumber(value.high)})`
}
