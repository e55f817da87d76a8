import type { Dataset } from '../workload/work-item.js'

/** When requests are sent. */
export type LoadShape =
  | {
      /** So many clients, each of which sends its next request when the one before has ended. */
      readonly kind: 'closed'
      readonly concurrency: number
      /** Milliseconds over which the clients begin. */
      readonly rampMs: number
    }
  | {
      /** So many requests per second, whatever the server does. */
      readonly kind: 'open'
      readonly rate: number
      readonly burstiness: number
      readonly rampMs: number
    }
  | {
      /** At the times of the dataset. */
      readonly kind: 'trace'
    }

/** Some of the requests' senders. */
export interface TenantShare {
  readonly name: string
  /** Its part of the requests, relative to the others'. */
  readonly weight: number
}

/** What a load consists of, the same for every target. */
export interface LoadOptions {
  readonly shape: LoadShape
  readonly dataset: Dataset
  /** How many requests are sent; default: no limit. */
  readonly requests?: number
  /** For how long requests are sent, in milliseconds; those under way still end. */
  readonly durationMs?: number | undefined
  readonly seed: number
  /** Share of requests that the client cancels in the middle; default 0. */
  readonly cancelRate?: number
  /** Share of requests that are read slowly; default 0. */
  readonly slowReaders?: number
  /** How long a slow reader rests after each chunk, in milliseconds. */
  readonly slowReadMs?: number
  readonly tenants?: readonly TenantShare[]
  readonly temperature: number
  readonly ignoreEos: boolean
  /** Milliseconds after which a request has failed. */
  readonly timeoutMs: number
}

/** What differs between the runs of a load. */
export interface RunOptions {
  /** Sets this run's prompts apart from those of other runs. */
  readonly salt: string
  /** The dataset's item to begin with. */
  readonly firstItem: number
  readonly signal: AbortSignal
  /** Called when a request has ended. */
  readonly onDone?: () => void
}
