import type { Distribution } from '../statistics/distribution.js'
import { estimate } from '../statistics/confidence.js'
import { figures } from './figures.js'
import { formatEstimate, formatNumber } from './format.js'
import { loadName, type RunResult } from './run-result.js'
import { textTable } from './text-table.js'

/** A run as text for the terminal. */
export function runTable({ summary, target, load, repeat, warnings, failures }: RunResult): string {
  const row = (name: string, values: Distribution | undefined) => {
    if (values === undefined) return []
    const { mean, p50, p90, p95, p99, max } = values
    return [[name, ...[mean, p50, p90, p95, p99, max].map(formatNumber)]]
  }
  const rows = [
    ...row('TTFT ms', summary.ttftMs),
    ...row('TPOT ms', summary.tpotMs),
    ...row('ITL ms', summary.itlMs),
    ...row('E2E ms', summary.e2eMs),
    ...row('send lag ms', summary.sendLagMs),
  ]
  const lines = [
    `${target.name}, ${loadName(load)}, run ${repeat}`,
    requestLine(summary.requests),
    `${formatNumber(summary.requestsPerSecond)} requests/s, ${formatNumber(summary.outputTokensPerSecond)} output tokens/s, ${formatNumber(summary.totalTokensPerSecond)} tokens/s in total, ${formatNumber(summary.durationMs / 1000)} s`,
    ...(summary.goodput === undefined
      ? []
      : [
          `goodput ${formatNumber(summary.goodput.requestsPerSecond)} requests/s, ${formatNumber(100 * summary.goodput.share)} % of all`,
        ]),
    `stability ${formatNumber(summary.stability)}${summary.jain === undefined ? '' : `, Jain index of ${summary.tenants.length} tenants ${formatNumber(summary.jain)}`}`,
    ...(rows.length > 0 ? [textTable(['', 'mean', 'p50', 'p90', 'p95', 'p99', 'max'], rows)] : []),
    ...Object.entries(failures).map(([kind, message]) => `failed with ${kind}: ${message}`),
    ...warnings.map((warning) => `warning: ${warning}`),
  ]
  return `${lines.join('\n')}\n\n`
}

function requestLine({
  total,
  ok,
  failed,
  cancelled,
  interrupted,
  errors,
}: RunResult['summary']['requests']): string {
  const kinds = Object.entries(errors).map(([kind, count]) => `${count} ${kind}`)
  return [
    `${total} requests: ${ok} ok`,
    `${failed} failed${kinds.length > 0 ? ` (${kinds.join(', ')})` : ''}`,
    ...(cancelled > 0 ? [`${cancelled} cancelled`] : []),
    ...(interrupted > 0 ? [`${interrupted} interrupted`] : []),
  ].join(', ')
}

/** Repeated runs of one load: each figure's mean with its 95 % interval. */
export function repeatTable(runs: readonly RunResult[]): string {
  const [first] = runs
  if (first === undefined || runs.length < 2) return ''
  const rows = figures.flatMap(({ name, unit, of }) => {
    const values = runs.flatMap(({ summary }) => of(summary) ?? [])
    return values.length > 0 ? [[`${name} ${unit}`, formatEstimate(estimate(values))]] : []
  })
  const table = textTable(['', 'mean (95 % interval)'], rows)
  return `${first.target.name}, ${loadName(first.load)}, ${runs.length} runs\n${table}\n\n`
}
