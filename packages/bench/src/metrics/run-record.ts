import { distributionOf } from '../statistics/statistics.js'

/** How a request ended. */
export type Outcome = 'ok' | 'failed' | 'cancelled' | 'interrupted'

/** Token counts as reported by the server. */
export interface Usage {
  readonly promptTokens?: number
  readonly generatedTokens?: number
  /** Prompt tokens that the server took from its prefix cache. */
  readonly cachedTokens?: number
}

/** Why a request failed. */
export interface RequestFailure {
  /**
   * `connection` (not reached), `disconnected` (ended midway), `timeout`, `http_<status>`, `server`
   * (an error in the stream), `protocol` (a violation of the API) or `empty` (no token).
   */
  readonly kind: string
  readonly message: string
}

/**
 * One request of a run, as measured by the client or by a simulation. Times are milliseconds after
 * the run began.
 */
export interface RunRecord {
  /** Its index in the run, from 0. */
  readonly index: number
  /** The index of the first request of its conversation; default: its own. */
  readonly program?: number
  /** Whether another request follows it in its conversation, unless the run ends before. */
  readonly goesOn?: boolean
  /** The tenant of the request; empty in a run without tenants. */
  readonly tenant: string
  /** When the load intended to send it. */
  readonly intendedMs: number
  /** When it was sent. Latencies count from this time. */
  readonly sentMs: number
  /** When text arrived, once per chunk. */
  readonly arrivalsMs: readonly number[]
  readonly endMs: number
  readonly outcome: Outcome
  readonly failure?: RequestFailure
  /** Tokens in the chunks if the API reports them, otherwise the number of chunks. */
  readonly arrivedTokens: number
  readonly usage?: Usage
  readonly asked: { readonly inputTokens: number; readonly outputTokens: number }
  /** True when it was read slowly on purpose, so that its ITL depends on the reader. */
  readonly slowReader: boolean
}

/** Generated tokens of a request: the server's count, or else the tokens that arrived. */
export const generatedTokens = ({ usage, arrivedTokens }: RunRecord): number =>
  usage?.generatedTokens ?? arrivedTokens

/** Time to the first token (TTFT) in milliseconds; undefined without a token. */
export function ttftOf({ arrivalsMs, sentMs }: RunRecord): number | undefined {
  const [first] = arrivalsMs
  return first === undefined ? undefined : first - sentMs
}

/** Time per output token after the first in milliseconds; undefined for fewer than two. */
export function tpotOf(record: RunRecord): number | undefined {
  const [first] = record.arrivalsMs
  const last = record.arrivalsMs.at(-1)
  const tokens = generatedTokens(record)
  if (first === undefined || last === undefined || tokens < 2) return undefined
  return (last - first) / (tokens - 1)
}

/** Times between successive chunks (ITL) in milliseconds. */
export const gapsOf = ({ arrivalsMs }: RunRecord): number[] =>
  arrivalsMs.slice(1).map((time, index) => time - arrivalsMs[index]!)

/** Time from sending the request to the end of the answer (E2E), in milliseconds. */
export const e2eOf = ({ endMs, sentMs }: RunRecord): number => endMs - sentMs

/** The first message of each kind of failure. */
export function failuresOf(records: readonly RunRecord[]): Record<string, string> {
  const failures: Record<string, string> = {}
  for (const { failure } of records) {
    if (failure !== undefined) failures[failure.kind] ??= failure.message
  }
  return failures
}

/** The latency limits for goodput, in milliseconds. */
export interface Slo {
  readonly ttft?: number
  /** The 99th percentile of the request's own times between chunks. */
  readonly itl?: number
  readonly tpot?: number
  readonly e2e?: number
}

const figures: Readonly<Record<keyof Slo, (record: RunRecord) => number | undefined>> = {
  ttft: ttftOf,
  itl: (record) => distributionOf(gapsOf(record))?.p99,
  tpot: tpotOf,
  e2e: e2eOf,
}

/** A client that reads slowly makes these longer than the server does. */
const ofReading: ReadonlySet<keyof Slo> = new Set(['itl', 'tpot', 'e2e'] as const)

/**
 * True when a request succeeded within every limit. Without a second token, it meets any ITL; of a slow reader only
 * the TTFT counts.
 */
export function meetsSlo(record: RunRecord, slo: Slo): boolean {
  if (record.outcome !== 'ok') return false
  return (Object.keys(slo) as (keyof Slo)[]).every((name) => {
    const limit = slo[name]
    if (record.slowReader && ofReading.has(name)) return true
    return limit === undefined || (figures[name](record) ?? 0) <= limit
  })
}
