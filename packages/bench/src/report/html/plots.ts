import { quantileSorted } from 'simple-statistics'
import { e2eOf, gapsOf, ttftOf, type RunRecord } from '../../metrics/run-record.js'
import { lanesOf } from '../chrome-trace.js'
import { plot } from './plot.js'
import { loadName, type MeasuredRun } from '../run-result.js'

/** Most points per line: more would be invisible and make the file large. */
const curvePoints = 200

/** The cumulative distribution of a latency over requests or gaps, a curve per target and load. */
export function latencyPlot(
  runs: readonly MeasuredRun[],
  title: string,
  valuesOf: (record: RunRecord) => readonly number[],
): Promise<string> {
  const data = [...grouped(runs)].flatMap(([series, own]) => {
    const values = own.flatMap(({ records }) => records.filter(isOk).flatMap(valuesOf))
    if (values.length === 0) return []
    const sorted = [...Float64Array.from(values).sort()]
    return Array.from({ length: curvePoints + 1 }, (_, index) => {
      const share = index / curvePoints
      return { series, share, value: quantileSorted(sorted, share) }
    })
  })
  return plot({
    data: { values: data },
    mark: { type: 'line', interpolate: 'step-after' },
    encoding: {
      x: { field: 'value', type: 'quantitative', title: `${title}, milliseconds` },
      y: { field: 'share', type: 'quantitative', title: 'share', axis: { format: '%' } },
      color: { field: 'series', type: 'nominal', sort: null },
    },
  })
}

/** The latencies that have a curve. */
export const latencies: readonly (readonly [string, (record: RunRecord) => readonly number[]])[] = [
  ['Time to first token', (record) => [ttftOf(record) ?? []].flat()],
  ['Time between tokens', (record) => (record.slowReader ? [] : gapsOf(record))],
  ['End to end', (record) => [e2eOf(record)]],
]

/** Latency against throughput: a point per run, and a line through the means of each load. */
export function throughputPlot(runs: readonly MeasuredRun[]): Promise<string> {
  const values = runs.flatMap(({ result: { target, load, summary } }, order) => {
    const { ttftMs, outputTokensPerSecond: throughput } = summary
    if (ttftMs === undefined) return []
    return [{ target: target.name, load: loadName(load), order, throughput, ttft: ttftMs.p50 }]
  })
  const encoding = {
    x: {
      field: 'throughput',
      type: 'quantitative',
      title: 'output tokens per second',
      scale: { zero: false },
    },
    y: { field: 'ttft', type: 'quantitative', title: 'median time to first token, milliseconds' },
    color: { field: 'target', type: 'nominal', sort: null },
  } as const
  const means = [
    { op: 'mean', field: 'throughput', as: 'throughput' },
    { op: 'mean', field: 'ttft', as: 'ttft' },
    { op: 'min', field: 'order', as: 'order' },
  ] as const
  return plot({
    data: { values },
    layer: [
      { mark: { type: 'point', opacity: 0.6 }, encoding },
      {
        transform: [{ aggregate: [...means], groupby: ['target', 'load'] }],
        mark: { type: 'line' },
        encoding: { ...encoding, order: { field: 'order' } },
      },
      {
        transform: [{ aggregate: [...means], groupby: ['target', 'load'] }],
        mark: { type: 'text', dy: -10 },
        encoding: { ...encoding, text: { field: 'load' } },
      },
    ],
  })
}

/** When each request of a run waited and generated. */
export function ganttPlot({ records }: MeasuredRun): Promise<string> {
  const shown = records.slice(0, 500)
  const lanes = lanesOf(shown)
  const values = shown.flatMap((record, index) => {
    const { sentMs, endMs, arrivalsMs, outcome } = record
    const lane = lanes[index] as number
    const first = arrivalsMs[0] ?? endMs
    const phase = outcome === 'ok' ? 'generating' : outcome
    return [
      { lane, from: sentMs / 1000, to: first / 1000, phase: 'waiting for the first token' },
      { lane, from: first / 1000, to: endMs / 1000, phase },
    ]
  })
  const height = Math.min(600, Math.max(80, 14 * (Math.max(0, ...lanes) + 1)))
  return plot({
    data: { values },
    height,
    mark: { type: 'bar', height: { band: 0.8 } },
    encoding: {
      x: { field: 'from', type: 'quantitative', title: 'seconds' },
      x2: { field: 'to' },
      y: { field: 'lane', type: 'ordinal', axis: null },
      color: { field: 'phase', type: 'nominal', sort: null },
    },
  })
}

/** The chunks served to each tenant over the time of a run. */
export function servicePlot({ records }: MeasuredRun): Promise<string> {
  const tenants = new Map<string, number[]>()
  for (const { tenant, arrivalsMs } of records) {
    tenants.set(tenant, [...(tenants.get(tenant) ?? []), ...arrivalsMs])
  }
  const values = [...tenants].flatMap(([tenant, times]) => {
    const sorted = times.toSorted((a, b) => a - b)
    const step = Math.max(1, Math.floor(sorted.length / curvePoints))
    return sorted.flatMap((time, index) =>
      index % step === 0 ? [{ tenant, seconds: time / 1000, tokens: index + 1 }] : [],
    )
  })
  return plot({
    data: { values },
    mark: { type: 'line', interpolate: 'step-after' },
    encoding: {
      x: { field: 'seconds', type: 'quantitative' },
      y: { field: 'tokens', type: 'quantitative', title: 'chunks served' },
      color: { field: 'tenant', type: 'nominal', sort: null },
    },
  })
}

const isOk = ({ outcome }: RunRecord) => outcome === 'ok'

function grouped(runs: readonly MeasuredRun[]): Map<string, MeasuredRun[]> {
  const groups = new Map<string, MeasuredRun[]>()
  for (const run of runs) {
    const name = `${run.result.target.name}, ${loadName(run.result.load)}`
    groups.set(name, [...(groups.get(name) ?? []), run])
  }
  return groups
}
