import { entryOf } from '@cllm/core'
import { quantileSorted } from 'simple-statistics'
import { e2eOf, gapsOf, generatedTokens, type RunRecord, ttftOf } from '../../metrics/run-record.js'
import { groupBy } from '../../statistics/statistics.js'
import { areaChart, type Point, scatterChart, stepChart } from '../chart/charts.js'
import { rowChart } from '../chart/row-chart.js'
import { lanesOf } from '../chrome-trace.js'
import { loadName, type MeasuredRun } from '../run-result.js'
import type { StepBucket } from '../step-history.js'

/** Most points per line: more would be invisible and make the file large. */
const curvePoints = 200

type ValuesOf = (record: RunRecord) => readonly number[]

/** The cumulative distribution of a latency over requests or gaps, a curve per target and load. */
function latencyPlot(runs: readonly MeasuredRun[], caption: string, valuesOf: ValuesOf): string {
  const values = [...groupedRuns(runs)].map(([name, own]) => {
    return [name, own.flatMap(({ records }) => records.filter(isOk).flatMap(valuesOf))] as const
  })
  return distributionPlot(caption, 'milliseconds, at most', values)
}

/** Which share of some values is at most how large, a curve for each name. */
function distributionPlot(
  caption: string,
  title: string,
  values: readonly (readonly [name: string, values: readonly number[]])[],
): string {
  const series = values
    .filter(([, own]) => own.length > 0)
    .map(([name, own]) => {
      const sorted = [...Float64Array.from(own).sort()]
      const points = Array.from({ length: curvePoints + 1 }, (_, index): Point => {
        const share = index / curvePoints
        return [quantileSorted(sorted, share), share]
      })
      return { name, points }
    })
  return stepChart({ caption, x: { title }, y: { title: 'share', isShare: true } }, series)
}

/** The latencies that have a curve. */
const latencies: readonly (readonly [string, ValuesOf])[] = [
  ['Time to first token', (record) => [ttftOf(record) ?? []].flat()],
  ['Time between tokens', (record) => (record.slowReader ? [] : gapsOf(record))],
  ['End to end', (record) => (record.slowReader ? [] : [e2eOf(record)])],
]

/** Latency against throughput: a point per run, and a line through the means of each load. */
function throughputPlot(runs: readonly MeasuredRun[]): string {
  const targets = new Map<string, Map<string, Point[]>>()
  for (const { result } of runs) {
    const { ttftMs, outputTokensPerSecond } = result.summary
    if (ttftMs === undefined) continue
    const loads = entryOf(targets, result.target.name, () => new Map())
    entryOf(loads, loadName(result.load), () => []).push([outputTokensPerSecond, ttftMs.p50])
  }
  const series = [...targets].map(([name, loads]) => ({
    name,
    groups: [...loads].map(([label, points]) => ({ label, points })),
  }))
  const caption = 'Throughput against latency, a point per run'
  const x = { title: 'output tokens per second' }
  return scatterChart({ caption, x, y: { title: 'median time to first token, ms' } }, series)
}

/** How long prompts and answers were, in tokens: those of the first target and load. */
function lengthsPlot(runs: readonly MeasuredRun[]): string {
  const [own = []] = [...groupedRuns(runs).values()]
  const records = own.flatMap(({ records: all }) => all.filter(isOk))
  return distributionPlot('Lengths', 'tokens, at most', [
    ['prompts', records.map(promptTokens)],
    ['answers', records.map(generatedTokens)],
  ])
}

/** What all runs have in one picture each: latencies, throughput and lengths. */
export function overviewPlots(runs: readonly MeasuredRun[]): string[] {
  if (runs.length === 0) return []
  return [
    ...latencies.map(([name, of]) => latencyPlot(runs, name, of)),
    throughputPlot(runs),
    lengthsPlot(runs),
  ]
}

/** The lengths of prompts and answers in words, such as `prompts of 12 to 40 tokens (median 20)`. */
export function lengthsInWords(runs: readonly MeasuredRun[]): string | undefined {
  const records = runs.flatMap(({ records: all }) => all.filter(isOk))
  if (records.length === 0) return undefined
  const words = (name: string, of: (record: RunRecord) => number) => {
    const sorted = [...Float64Array.from(records, of).sort()]
    const [least, middle, most] = [0, 0.5, 1].map((share) =>
      Math.round(quantileSorted(sorted, share)).toLocaleString('en-US'),
    )
    return least === most
      ? `${name} of ${least} tokens`
      : `${name} of ${least} to ${most} tokens (median ${middle})`
  }
  return `${words('prompts', promptTokens)}, ${words('answers', generatedTokens)}`
}

/** When each request of a run waited and generated. */
export function ganttPlot({ records }: MeasuredRun, caption: string): string {
  const shown = records.slice(0, 500)
  const lanes = lanesOf(shown)
  const kinds = ['generating', 'waiting for the first token']
  const rows = Array.from({ length: Math.max(0, ...lanes) + 1 }, () => ({
    pieces: [] as { from: number; to: number; kind: number }[],
  }))
  for (const [index, { sentMs, endMs, arrivalsMs, outcome }] of shown.entries()) {
    const first = arrivalsMs[0] ?? endMs
    const phase = outcome === 'ok' ? 'generating' : outcome
    if (!kinds.includes(phase)) kinds.push(phase)
    rows[lanes[index] ?? 0]?.pieces.push(
      { from: sentMs / 1000, to: first / 1000, kind: 1 },
      { from: first / 1000, to: endMs / 1000, kind: kinds.indexOf(phase) },
    )
  }
  const rowHeight = Math.max(3, Math.min(14, 600 / rows.length))
  return rowChart({ caption, x: { title: 'seconds' }, kinds, rowHeight, isWide: true }, rows)
}

/** The chunks served to each tenant over the time of a run. */
export function servicePlot({ records }: MeasuredRun, caption: string): string {
  const tenants = groupBy(records, ({ tenant }) => tenant)
  const series = [...tenants].map(([name, own]) => {
    const times = own.flatMap(({ arrivalsMs }) => arrivalsMs)
    const sorted = times.toSorted((a, b) => a - b)
    const step = Math.max(1, Math.floor(sorted.length / curvePoints))
    const points = sorted.flatMap((time, index): Point[] =>
      index % step === 0 ? [[time / 1000, index + 1]] : [],
    )
    return { name, points }
  })
  return stepChart({ caption, x: { title: 'seconds' }, y: { title: 'chunks served' } }, series)
}

/** Prompt and answer tokens per step over time. */
export function stepPlot(steps: readonly StepBucket[], caption: string): string {
  const of = (tokens: (bucket: StepBucket) => number) =>
    steps.map((bucket): Point => [bucket.atMs / 1000, tokens(bucket) / bucket.steps])
  const series = [
    { name: 'decode', points: of(({ decodeTokens }) => decodeTokens) },
    { name: 'prefill', points: of(({ prefillTokens }) => prefillTokens) },
  ]
  return areaChart({ caption, x: { title: 'seconds' }, y: { title: 'tokens per step' } }, series)
}

const isOk = ({ outcome }: RunRecord) => outcome === 'ok'

const promptTokens = ({ usage, asked }: RunRecord) => usage?.promptTokens ?? asked.inputTokens

/** The runs of each target and load, by both in words. */
export const groupedRuns = (runs: readonly MeasuredRun[]) =>
  groupBy(runs, ({ result }) => `${result.target.name}, ${loadName(result.load)}`)
