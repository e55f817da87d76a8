import type { RunRecord } from '../metrics/run-record.js'
import { loadName, type MeasuredRun } from './run-result.js'
import type { StepBucket } from './step-history.js'

/** An event of the Trace Event Format that Perfetto and chrome://tracing read; times in µs. */
export interface TraceEvent {
  readonly name: string
  readonly ph: 'X' | 'M' | 'C'
  readonly pid: number
  readonly tid: number
  readonly ts?: number
  readonly dur?: number
  readonly args?: Readonly<Record<string, unknown>>
}

/** A timeline: a process per run, a lane per running request, with waiting and generating apart. */
export function chromeTrace(runs: readonly MeasuredRun[]): { traceEvents: TraceEvent[] } {
  const traceEvents = runs.flatMap(({ result, records, steps = [] }, pid): TraceEvent[] => {
    const name = `${result.target.name}, ${loadName(result.load)}, run ${result.repeat}`
    const lanes = lanesOf(records)
    return [
      { name: 'process_name', ph: 'M', pid, tid: 0, args: { name } },
      ...records.flatMap((record, index) => eventsOf(record, pid, lanes[index] as number)),
      ...steps.map((bucket) => stepEvent(bucket, pid)),
    ]
  })
  return { traceEvents }
}

/** The composition of steps, as a counter. */
function stepEvent({ atMs, steps, ...tokens }: StepBucket, pid: number): TraceEvent {
  const args = { prefill: tokens.prefillTokens / steps, decode: tokens.decodeTokens / steps }
  return { name: 'tokens per step', ph: 'C', pid, tid: 0, ts: atMs * 1000, args }
}

function eventsOf(record: RunRecord, pid: number, tid: number): TraceEvent[] {
  const { index, sentMs, endMs, arrivalsMs, outcome, tenant, failure, usage } = record
  const [first] = arrivalsMs
  const span = (name: string, from: number, to: number, args = {}): TraceEvent => {
    return { name, ph: 'X', pid, tid, ts: from * 1000, dur: Math.max(0, to - from) * 1000, args }
  }
  const about = { outcome, tenant, ...usage, ...(failure && { failure }) }
  return [
    span(`request ${index}`, sentMs, endMs, about),
    span('first token', sentMs, first ?? endMs),
    ...(first === undefined ? [] : [span('generate', first, endMs, { chunks: arrivalsMs.length })]),
  ]
}

/** Assigns requests to the fewest lanes such that requests in a lane do not overlap. */
export function lanesOf(records: readonly RunRecord[]): number[] {
  const lanes: number[] = []
  const bySending = records.map((record, index) => ({ record, index }))
  bySending.sort((a, b) => a.record.sentMs - b.record.sentMs)
  const result: number[] = []
  for (const { record, index } of bySending) {
    const free = lanes.findIndex((end) => end <= record.sentMs)
    const lane = free === -1 ? lanes.length : free
    lanes[lane] = record.endMs
    result[index] = lane
  }
  return result
}
