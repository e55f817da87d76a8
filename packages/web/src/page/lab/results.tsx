import type { PolicySetting } from '@cllm/core'
import type { ComponentChild } from 'preact'
import { DataTable, numbers } from '../parts/data-table.js'
import { formatMs, formatShare } from '../parts/format.js'
import { percentilesOf } from '../scheduler/live-state.js'
import type { LabResult } from './run-lab.js'
import { Quiet } from '../parts/form.js'
import { useMemo } from 'preact/hooks'
import { Chart } from '../parts/chart.js'

interface Row {
  readonly name: string
  readonly value: (result: LabResult) => number | undefined
  readonly text: (value: number) => string
  /** Whether a higher value is better; undefined: neither is. */
  readonly isMoreBetter?: boolean
}

/** A row whose lowest value is best. */
const less = (name: string, value: Row['value'], text: Row['text'] = formatMs): Row => {
  return { name, value, text, isMoreBetter: false }
}
const fixed = (digits: number) => (value: number) => value.toFixed(digits)

const rows: readonly Row[] = [
  less('TTFT p50', ({ ttfts }) => percentilesOf(ttfts)?.p50),
  less('TTFT p90', ({ ttfts }) => percentilesOf(ttfts)?.p90),
  less('TTFT p99', ({ ttfts }) => percentilesOf(ttfts)?.p99),
  less('ITL p50', ({ itls }) => percentilesOf(itls)?.p50),
  less('ITL p99', ({ itls }) => percentilesOf(itls)?.p99),
  less('longest pause', ({ longestPauses }) => longestPauses.at(-1)),
  { name: 'tokens/s', value: (one) => one.tokensPerSecond, text: fixed(1), isMoreBetter: true },
  less('until all are done', ({ durationMs }) => durationMs),
  less("tenants' TTFT, longest to shortest", ({ unevenness }) => unevenness, fixed(2)),
  { name: 'busy', value: ({ utilization }) => utilization, text: formatShare },
  { name: 'preemptions', value: ({ preemptions }) => preemptions, text: String },
  less('failed', ({ failed }) => failed, String),
]

/** A policy's name with its options, in which candidates may differ only. */
function nameOf({ policy, options }: PolicySetting): string {
  const given = Object.entries(options).map(([name, value]) => `${name}=${JSON.stringify(value)}`)
  return [policy, ...given].join(' ')
}

interface ResultsTableProps {
  readonly results: readonly LabResult[]
  readonly onApply: (candidate: PolicySetting) => void
}

/** The figures of the policies, a column for each; the best value of a row is marked. */
export function ResultsTable({ results, onApply }: ResultsTableProps) {
  const apply = (result: LabResult) => (
    <Quiet
      disabled={result.policy.endsWith('+own')}
      aria-label={`Apply ${nameOf(result)}`}
      onClick={() => onApply(result)}
    >
      Apply
    </Quiet>
  )
  return (
    <DataTable
      label="Results"
      stacks={false}
      rows={[...rows, undefined]}
      keyOf={(row) => row?.name ?? ''}
      columns={[
        { name: '', kind: 'head', cell: (row) => row?.name ?? 'on the server' },
        ...results.map((result) =>
          numbers<Row | undefined>(nameOf(result), (row) =>
            row === undefined ? apply(result) : figureOf(row, result, results),
          ),
        ),
      ]}
    />
  )
}

function figureOf(row: Row, result: LabResult, results: readonly LabResult[]): ComponentChild {
  const value = row.value(result)
  if (value === undefined) return '–'
  const all = results.flatMap((other) => row.value(other) ?? [])
  const best = row.isMoreBetter === true ? Math.max(...all) : Math.min(...all)
  const text = row.text(value)
  // Where all values look the same, none is marked.
  const isBest =
    row.isMoreBetter !== undefined && text === row.text(best) && new Set(all.map(row.text)).size > 1
  if (!isBest) return text
  return (
    <>
      <strong>{text} ✓</strong>
      <span class="sr-only"> best</span>
    </>
  )
}

const axes = {
  x: { title: 'milliseconds, at most' },
  y: { title: 'share of requests', isShare: true },
}
const longestPause = 'Longest pause of each answer'

/** The times for which curves are drawn. */
export const curves = [
  { options: { caption: 'TTFT', ...axes }, valuesOf: (one: LabResult) => one.ttfts },
  { options: { caption: longestPause, ...axes }, valuesOf: (one: LabResult) => one.longestPauses },
]

/** Curves end at this share of the values: outliers would squeeze the rest. */
const shownShare = 0.98
/** The most points of a curve: more would not be visible. */
const mostPoints = 300

const format = { x: formatMs, y: formatShare }

type CurveProps = (typeof curves)[number] & { readonly results: readonly LabResult[] }

/** The cumulative distribution of a time over the requests: a curve further left is better. */
export function Curve({ options, valuesOf, results }: CurveProps) {
  const series = useMemo(() => {
    const all = results.map(valuesOf)
    const ends = all.map((each) => each[Math.floor(shownShare * (each.length - 1))] ?? 0)
    const most = Math.max(1, ...ends)
    return results.map((result, index) => {
      return { name: nameOf(result), points: pointsOf(all[index] ?? [], most) }
    })
  }, [results])
  return (
    <section class="card" aria-label={options.caption}>
      <Chart kind="steps" {...{ options, series, format }} />
    </section>
  )
}

/** Points of the cumulative distribution of ascending values. */
function pointsOf(values: readonly number[], most: number): (readonly [number, number])[] {
  const stride = Math.max(1, Math.floor(values.length / mostPoints))
  return values.flatMap((value, index) => {
    const isShown = value <= most && (index + 1) % stride === 0
    return isShown ? [[value, (index + 1) / values.length] as const] : []
  })
}
