import type { Dataset } from '../workload/work-item.js'
import { Agent as HttpAgent, type AgentOptions } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import type { Api } from '../apis/apis.js'

/** When requests are sent. */
export type LoadShape =
  | {
      /** The number of clients; each sends its next request when its previous one has ended. */
      readonly kind: 'closed'
      readonly concurrency: number
      /** Milliseconds over which the clients start. */
      readonly rampMs: number
    }
  | {
      /** Requests per second, however slowly the server answers. */
      readonly kind: 'open'
      readonly rate: number
      readonly burstiness: number
      readonly rampMs: number
    }
  | {
      /** At the dataset's arrival times. */
      readonly kind: 'trace'
    }

/** A tenant and its share of the requests. */
export interface TenantShare {
  readonly name: string
  /** Its share of the requests, relative to the other tenants' weights. */
  readonly weight: number
}

/** A load, the same for every target. */
export interface LoadOptions {
  readonly shape: LoadShape
  readonly dataset: Dataset
  /** Number of requests to send, of programs the first ones; default: no limit. */
  readonly requests?: number
  /** For how long requests are sent, in milliseconds; requests in flight still finish. */
  readonly durationMs?: number | undefined
  readonly seed: number
  /** Share of requests that the client cancels midway; default 0. */
  readonly cancelRate?: number
  /** Share of requests that are read slowly; default 0. */
  readonly slowReaders?: number
  /** How long a slow reader pauses after each chunk, in milliseconds. */
  readonly slowReadMs?: number
  readonly tenants?: readonly TenantShare[]
  readonly temperature: number
  readonly ignoreEos: boolean
  /** Whether further turns have what the model thought and called, in place of the dataset's call; default: not. */
  readonly ownCalls?: boolean
  /** Milliseconds after which a request fails. */
  readonly timeoutMs: number
}

/** The clock of a load. */
export interface LoadClock {
  /** Milliseconds since an arbitrary start, monotonic. */
  now(): number
  /** Resolves after this many milliseconds, or when the signal is aborted. */
  sleep(milliseconds: number, signal: AbortSignal): Promise<void>
}

/** Options that differ between the runs of a load. */
export interface RunOptions {
  /** Runs with different salts send different prompts. */
  readonly salt: string
  /** Index of the first dataset item. */
  readonly firstItem: number
  readonly signal: AbortSignal
  /** Called when a request has ended. */
  readonly onDone?: () => void
  /** Default: real time, on the monotonic clock. */
  readonly clock?: LoadClock
}

/** A server to measure. */
export interface Target {
  /** Name in tables and reports. */
  readonly name: string
  readonly url: URL
  readonly api: Api
  readonly model?: string
  readonly headers: Readonly<Record<string, string>>
  /** Further fields for every request body. */
  readonly extraBody: Readonly<Record<string, unknown>>
  /** Reuses connections, or opens a new one for each request. */
  readonly agent: HttpAgent | HttpsAgent
}

/** Whether connections are reused. */
export type Connections = 'reuse' | 'new'

/** An agent for a target's URL. */
export function agentFor(url: URL, connections: Connections): HttpAgent | HttpsAgent {
  const options: AgentOptions = { keepAlive: connections === 'reuse', maxFreeSockets: 4096 }
  return url.protocol === 'https:' ? new HttpsAgent(options) : new HttpAgent(options)
}

/** The URL of a path below the target's URL. */
export const urlOf = ({ url }: Pick<Target, 'url'>, path: string): URL =>
  new URL(url.pathname.replace(/\/$/, '') + path, url)
