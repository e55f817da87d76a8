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

/** A summary's latencies by the names that readers know. */
export const latencies = {
  TTFT: 'ttftMs',
  TPOT: 'tpotMs',
  ITL: 'itlMs',
  E2E: 'e2eMs',
  program: 'programMs',
  'chat beside': 'aloneMs',
  'send lag': 'sendLagMs',
} as const

/** What is told of a latency. */
export const parts = ['mean', 'p50', 'p90', 'p95', 'p99', 'max'] as const

type Part = (typeof parts)[number]

const latency = (name: keyof typeof latencies, ...of: readonly Part[]): Figure[] =>
  of.map((part) => ({
    name: `${name} ${part}`,
    unit: 'ms',
    better: 'lower',
    of: (summary) => summary[latencies[name]]?.[part],
  }))

const rate = (name: string, unit: string, of: Figure['of']): Figure => {
  return { name, unit, better: 'higher', of }
}

/** The figures by which targets are compared, and that get an interval over repeated runs. */
export const figures: readonly Figure[] = [
  rate('output', 'tokens/s', (summary) => summary.outputTokensPerSecond),
  rate('requests', '/s', (summary) => summary.requestsPerSecond),
  rate('goodput', '/s', (summary) => summary.goodput?.requestsPerSecond),
  ...latency('TTFT', 'p50', 'p99'),
  ...latency('ITL', 'p50', 'p99', 'max'),
  ...latency('TPOT', 'mean'),
  ...latency('E2E', 'p50', 'p99'),
  ...latency('program', 'mean', 'p99'),
  ...latency('chat beside', 'mean', 'p99'),
]

/** Numbers by their names in tables; those that were not measured are undefined. */
export type Numbers = Readonly<Record<string, number | undefined>>

/** The names of the numbers that were measured in one of several runs. */
export const measuredOf = (all: readonly Numbers[]): string[] =>
  Object.keys(all[0] ?? {}).filter((name) => all.some((one) => one[name] !== undefined))

/** The numbers of a summary. */
export const numbersOf = (summary: Summary): Numbers => ({
  ok: summary.requests.ok,
  failed: summary.requests.failed,
  ...Object.fromEntries(figures.map(({ name, unit, of }) => [`${name} ${unit}`, of(summary)])),
  'Jain index of tenants': summary.jain,
})

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
