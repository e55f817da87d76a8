import * as of from '../metrics/run-record.js'
import type { SimulatedRun } from '../simulate/simulate-policy.js'
import { simulatedNumbers } from '../simulate/simulation-report.js'
import { distributionOf } from '../statistics/statistics.js'
import { latencies, numbersOf, parts } from './figures.js'
import type { MeasuredRun } from './run-result.js'

/** A run of requests, measured or simulated. */
export type Run = MeasuredRun | SimulatedRun

/** A line: a cell for each column, empty where it is null or undefined. */
export type CsvRow = Readonly<
  Record<string, string | number | readonly number[] | null | undefined>
>

/** Rows as CSV (RFC 4180), with the columns' names in the first line. */
export function csvOf(rows: readonly CsvRow[]): string {
  // Only what must be is quoted: some programs take what is quoted for no number.
  const cell = (value: CsvRow[string]): string => {
    const text = String(value ?? '')
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
  }
  const names = Object.keys(rows[0] ?? {})
  const lines = [names, ...rows.map((row) => names.map((name) => row[name]))]
  return lines.map((cells) => `${cells.map(cell).join(',')}\n`).join('')
}

/** A line for each run: what ran, and every figure of it. */
export const runsCsv = (runs: readonly Pick<Run, 'result'>[]): string =>
  csvOf(runs.map(({ result }) => rowOf(result, figureCells(result))))

/** A line for each request of each run. */
export const requestsCsv = (runs: readonly Run[]): string =>
  csvOf(runs.flatMap((run) => run.records.map((record) => rowOf(run.result, requestCells(record)))))

/**
 * Cells behind those that tell one run from another. What may have commas stands last: programs that split lines at
 * them still find all other columns.
 */
function rowOf(result: Run['result'], cells: CsvRow): CsvRow {
  const { load, dataset, seed } = result
  const clients = load.kind === 'closed' ? load.concurrency : undefined
  const rate = load.kind === 'open' ? load.rate : undefined
  const asked = { dataset, clients, 'rate /s': rate, seed }
  if (result.kind === 'run') {
    const { target, repeat: run, startedAt: started } = result
    const { name, api, model } = target
    return { target: name, api, model, ...asked, run, started, ...cells }
  }
  const { policy, policyOptions, cost, machines, slots } = result
  const options = JSON.stringify(policyOptions)
  return { policy, ...asked, cost: cost.name, machines, slots, ...cells, options }
}

function figureCells(result: Run['result']): CsvRow {
  const { summary } = result
  const { requests, durationMs, totalTokensPerSecond, goodput, stability } = summary
  const { total, cancelled, interrupted, errors } = requests
  const all = Object.entries(latencies).flatMap(([name, key]) =>
    parts.map((part) => [`${name} ${part} ms`, summary[key]?.[part]]),
  )
  const numbers = result.kind === 'simulation' ? simulatedNumbers(result) : numbersOf(summary)
  return {
    ...numbers,
    requests: total,
    cancelled,
    interrupted,
    'duration s': durationMs / 1000,
    'tokens/s': totalTokensPerSecond,
    'goodput %': goodput && 100 * goodput.share,
    stability,
    ...Object.fromEntries(all),
    errors: JSON.stringify(errors),
  }
}

function requestCells(record: of.RunRecord): CsvRow {
  const { index, program = index, tenant, outcome, failure, sentMs, usage, asked } = record
  const gaps = distributionOf(of.gapsOf(record))
  return {
    request: index,
    program,
    tenant,
    outcome,
    error: failure?.kind,
    'sent ms': sentMs,
    'send lag ms': sentMs - record.intendedMs,
    'prompt tokens': usage?.promptTokens ?? asked.inputTokens,
    'reused tokens': usage?.cachedTokens,
    'output tokens': of.generatedTokens(record),
    'TTFT ms': of.ttftOf(record),
    'TPOT ms': of.tpotOf(record),
    'ITL p99 ms': gaps?.p99,
    'ITL max ms': gaps?.max,
    'E2E ms': of.e2eOf(record),
  }
}
