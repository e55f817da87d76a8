/** How a request ended. */
export type Outcome = 'ok' | 'failed' | 'cancelled' | 'interrupted'

/** Token counts as the server told them. */
export interface Usage {
  readonly promptTokens?: number
  readonly generatedTokens?: number
  /** Tokens of the prompt that the server did not compute anew. */
  readonly cachedTokens?: number
}

/** Why a request failed. */
export interface RequestFailure {
  /**
   * `connection` (not reached), `disconnected` (ended in the middle), `timeout`, `http_<status>`,
   * `server` (an error in the stream), `protocol` (not what the API says) or `empty` (no token).
   */
  readonly kind: string
  readonly message: string
}

/**
 * One request of a run, as measured by the client or by a simulation. Times are milliseconds after
 * the run began.
 */
export interface RunRecord {
  /** Its place in the run, from 0. */
  readonly index: number
  /** Whom it was sent for; empty where tenants play no part. */
  readonly tenant: string
  /** When the load said that it is sent. */
  readonly intendedMs: number
  /** When it was sent. The latencies count from here. */
  readonly sentMs: number
  /** When text arrived, once per chunk. */
  readonly arrivalsMs: readonly number[]
  readonly endMs: number
  readonly outcome: Outcome
  readonly failure?: RequestFailure
  /** Tokens that the chunks had in them, where the API tells, else the chunks. */
  readonly arrivedTokens: number
  readonly usage?: Usage
  readonly asked: { readonly inputTokens: number; readonly outputTokens: number }
  /** True when it was read slowly on purpose: the times between its chunks are the reader's. */
  readonly slowReader: boolean
}

/** Tokens that a request generated: by the server's count, else by what arrived. */
export function generatedTokens({ usage, arrivedTokens }: RunRecord): number {
  return usage?.generatedTokens ?? arrivedTokens
}

/** Time to the first token in milliseconds, or undefined when none came. */
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
export function gapsOf({ arrivalsMs }: RunRecord): number[] {
  return arrivalsMs.slice(1).map((time, index) => time - (arrivalsMs[index] as number))
}

/** From the sending to the end of the answer, in milliseconds. */
export function e2eOf({ endMs, sentMs }: RunRecord): number {
  return endMs - sentMs
}
