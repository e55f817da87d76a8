import type {
  EngineInfo,
  GenerateRequest,
  TenantService,
  WorkerStatistics,
  RequestEvent,
} from '@cllm/core'
import type { FromEngine, ToEngine } from '@cllm/host'
import type { PlacedRequest, WorkerReport } from '@cllm/scheduler'

/** Whether a worker takes new requests; `restarting` while its engine is started again. */
export type WorkerState = Exclude<WorkerStatistics['state'], 'incompatible'>

/** A worker as the list of members has it. */
export interface WorkerRecord {
  readonly kind: 'worker'
  /** What it speaks: fronts of another number send it nothing. */
  readonly protocol: number
  readonly id: string
  readonly state: WorkerState
  /** What it serves. */
  readonly info: EngineInfo
  /**
   * Workers with the same one compute the same numbers: the model's file, the library, the device and
   * the type of the KV cache.
   */
  readonly fingerprint: string
  readonly host: string
  /** Messages that it has refused so far: no front of its cluster can have sent them. */
  readonly refusedMessages: number
  /** When it listed itself last, in milliseconds of its clock. */
  readonly listedAt?: number
  /** Its load, when it was listed last. */
  readonly load: Pick<WorkerReport, 'slots' | 'open' | 'openTokens' | 'backlogTokens' | 'tokenMs'>
}

/** A message of a front to a worker. */
export type ToWorker =
  /** The first on a link. */
  | { readonly type: 'hello'; readonly front: string }
  | {
      readonly type: 'place'
      /** The number of the front's placement, by which both know the request. */
      readonly placement: number
      /** What the worker's meter counts it with. */
      readonly routed: Omit<PlacedRequest, 'id'>
      readonly request: GenerateRequest
    }
  | { readonly type: 'cancel'; readonly placement: number; readonly reason?: string }
  /** What other workers did for tenants of this front. */
  | { readonly type: 'served'; readonly services: readonly TenantService[] }
  | Extract<ToEngine, { readonly type: 'leave' | 'call' }>

/** A message of a worker to a front. */
export type FromWorker =
  | StepEvents
  | {
      readonly type: 'report'
      readonly state: WorkerState
      readonly report: WorkerReport
      /** Requests on it that are of no batch. */
      readonly clients: number
      /** It drains, and what it has is to go on elsewhere now instead of ending here. */
      readonly isMigrating?: boolean
    }
  | Extract<FromEngine, { readonly type: 'result' | 'error' }>

/** What a worker says of itself to a front. */
export type WorkerNews = Extract<FromWorker, { readonly type: 'report' }>

/** An envelope to a worker that belongs to no link. */
export interface WorkerOrder {
  readonly order: 'drain'
  /** Whether what it has goes on elsewhere at once, instead of ending there. */
  readonly migrate?: boolean
}

/**
 * The events of a step in a row, without names, as most of what a cluster says is tokens: for each the number of its
 * placement, then for a plain token its id and its text, and for all others the event.
 */
export type StepEvents = readonly (number | string | RequestEvent)[]

/** Appends an event. */
export function addEvent(
  events: (number | string | RequestEvent)[],
  placement: number,
  event: RequestEvent,
): void {
  const isPlain =
    event.type === 'token' && event.logprobs === undefined && event.promptLogprobs === undefined
  if (isPlain) events.push(placement, event.token, event.text)
  else events.push(placement, event)
}

/** Calls back with each event, in order. */
export function forEachEvent(
  events: StepEvents,
  listener: (placement: number, event: RequestEvent) => void,
): void {
  for (let index = 0; index < events.length;) {
    const placement = events[index++] as number
    const next = events[index++] as number | RequestEvent
    if (typeof next !== 'number') listener(placement, next)
    else listener(placement, { type: 'token', token: next, text: events[index++] as string })
  }
}

/** The id at a worker of a request that a front placed there. */
export const idThere = (link: string, placement: number, id = ''): string =>
  `${link}/${placement}/${id}`

/** What a worker says, with the requests of a link under their front's ids; others keep theirs. */
export function withOwnIds(said: unknown, link: string): unknown {
  const prefix = `${link}/`
  const renamed = (value: unknown): unknown => {
    if (typeof value === 'string') {
      return value.startsWith(prefix) ? value.slice(value.indexOf('/', prefix.length) + 1) : value
    }
    if (Array.isArray(value)) return value.map(renamed)
    if (typeof value !== 'object' || value === null) return value
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, renamed(one)]))
  }
  return renamed(said)
}
