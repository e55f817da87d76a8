import type {
  EngineInfo,
  GenerateRequest,
  TenantService,
  WorkerStatistics,
  RequestEvent,
} from '@cllm/core'
import type { FromEngine, ToEngine } from '@cllm/host'
import type { PlacedRequest, WorkerReport } from '@cllm/scheduler'

/** The state of a worker: only `up` takes new requests; `restarting` while its engine is started again. */
export type WorkerState = Exclude<WorkerStatistics['state'], 'incompatible'>

/** A worker's record in the list of members. */
export interface WorkerRecord {
  readonly kind: 'worker'
  /** The version of its cluster protocol: fronts with another one send it nothing. */
  readonly protocol: number
  readonly id: string
  readonly state: WorkerState
  /** The model and limits of its engine. */
  readonly info: EngineInfo
  /**
   * Workers with the same fingerprint compute the same numbers, but for rounding. It covers the model's file, the
   * library, the device and the type of the KV cache.
   */
  readonly fingerprint: string
  readonly host: string
  /** The number of messages that it has refused, as no front of its cluster can have sent them. */
  readonly refusedMessages: number
  /** When it last listed itself, in milliseconds of its clock. */
  readonly listedAt?: number
  /** Its load when it last listed itself. */
  readonly load: Pick<WorkerReport, 'slots' | 'open' | 'openTokens' | 'backlogTokens' | 'tokenMs'>
}

/** A message of a front to a worker. */
export type ToWorker =
  /** The first message on a link. */
  | { readonly type: 'hello'; readonly front: string }
  | {
      readonly type: 'place'
      /** The number of the front's placement, by which both sides identify the request. */
      readonly placement: number
      /** The request as the worker's load meter counts it. */
      readonly routed: Omit<PlacedRequest, 'id'>
      readonly request: GenerateRequest
    }
  | { readonly type: 'cancel'; readonly placement: number; readonly reason?: string }
  /** The service that tenants of this front got from other workers. */
  | { readonly type: 'served'; readonly services: readonly TenantService[] }
  | Extract<ToEngine, { readonly type: 'leave' | 'call' }>

/** A message of a worker to a front. */
export type FromWorker =
  | StepEvents
  | {
      readonly type: 'report'
      readonly state: WorkerState
      readonly report: WorkerReport
      /** The number of its requests that do not belong to batches. */
      readonly clients: number
      /** Whether its requests are to go on at other workers now, as it drains and does not wait for their end. */
      readonly isMigrating?: boolean
    }
  | Extract<FromEngine, { readonly type: 'result' | 'error' }>

/** A worker's report on itself to a front. */
export type WorkerNews = Extract<FromWorker, { readonly type: 'report' }>

/** An order to a worker, in an envelope that belongs to no link. */
export interface WorkerOrder {
  readonly order: 'drain'
  /** Whether its requests go on at other workers at once; default: they end on it. */
  readonly migrate?: boolean
}

/**
 * The events of a step as a flat list without names, since most messages of a cluster are tokens. Each event is the
 * number of its placement, followed by id and text of a plain token, or by the event itself for all others.
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

/** The id that a front's request has at its worker. */
export const idThere = (link: string, placement: number, id = ''): string =>
  `${link}/${placement}/${id}`

/** A worker's answer in which the requests of a link have their front's ids again; other ids stay. */
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
