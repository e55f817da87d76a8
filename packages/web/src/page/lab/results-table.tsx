import type { JSX } from 'preact'
import { ColumnHeads } from '../parts/column-heads.js'
import { formatMs, formatShare } from '../parts/format.js'
import { percentilesOf } from '../scheduler/live-state.js'
import type { Candidate } from './lab-job.js'
import type { LabResult } from './run-lab.js'

interface Row {
  readonly name: string
  readonly value: (result: LabResult) => number | undefined
  readonly text: (value: number) => string
  /** Whether more is better; undefined: neither. */
  readonly isMoreBetter?: boolean
}

const ms = (name: string, value: Row['value']): Row => {
  return { name, value, text: formatMs, isMoreBetter: false }
}

const rows: readonly Row[] = [
  ms('TTFT p50', ({ ttfts }) => percentilesOf(ttfts)?.p50),
  ms('TTFT p90', ({ ttfts }) => percentilesOf(ttfts)?.p90),
  ms('TTFT p99', ({ ttfts }) => percentilesOf(ttfts)?.p99),
  ms('ITL p50', ({ itls }) => percentilesOf(itls)?.p50),
  ms('ITL p99', ({ itls }) => percentilesOf(itls)?.p99),
  ms('longest pause', ({ longestPauses }) => longestPauses.at(-1)),
  {
    name: 'tokens/s',
    value: ({ tokensPerSecond }) => tokensPerSecond,
    text: (value) => value.toFixed(1),
    isMoreBetter: true,
  },
  ms('until all are done', ({ durationMs }) => durationMs),
  {
    name: "tenants' TTFT, longest to shortest",
    value: ({ unevenness }) => unevenness,
    text: (value) => value.toFixed(2),
    isMoreBetter: false,
  },
  { name: 'busy', value: ({ utilization }) => utilization, text: formatShare },
  { name: 'preemptions', value: ({ preemptions }) => preemptions, text: String },
  { name: 'failed', value: ({ failed }) => failed, text: String, isMoreBetter: false },
]

/** The figures of each policy beside each other; the best of a row is marked. */
export function ResultsTable({
  results,
  onApply,
}: {
  readonly results: readonly LabResult[]
  readonly onApply: (candidate: Candidate) => void
}): JSX.Element {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Results">
      <table>
        <thead>
          <tr>
            <td />
            <ColumnHeads names={results.map(({ policy }) => policy)} numbers />
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.name}>
              <th scope="row">{row.name}</th>
              {results.map((result, index) => (
                <Cell key={index} {...{ row, result, results }} />
              ))}
            </tr>
          ))}
          <tr>
            <th scope="row">on the server</th>
            {results.map((result, index) => (
              <td class="number" key={index}>
                <button
                  type="button"
                  class="quiet"
                  disabled={result.policy.endsWith('+own')}
                  aria-label={`Apply ${result.policy}`}
                  onClick={() => onApply(result)}
                >
                  Apply
                </button>
              </td>
            ))}
          </tr>
        </tbody>
      </table>
    </div>
  )
}

function Cell({
  row,
  result,
  results,
}: {
  readonly row: Row
  readonly result: LabResult
  readonly results: readonly LabResult[]
}): JSX.Element {
  const value = row.value(result)
  if (value === undefined) return <td class="number">–</td>
  const all = results.flatMap((other) => row.value(other) ?? [])
  const best = row.isMoreBetter === true ? Math.max(...all) : Math.min(...all)
  const shown = all.map(row.text)
  // Where all look the same, none is better.
  const isBest =
    row.isMoreBetter !== undefined && row.text(value) === row.text(best) && new Set(shown).size > 1
  return (
    <td class="number">
      {isBest ? <strong>{row.text(value)} ✓</strong> : row.text(value)}
      {isBest && <span class="sr-only"> best</span>}
    </td>
  )
}
