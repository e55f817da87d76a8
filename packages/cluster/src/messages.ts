import type { EngineInfo, GenerateRequest, TenantService, WorkerStatistics } from '@cllm/core'
import type { FromEngine, ToEngine } from '@cllm/host'
import type { PlacedRequest, WorkerReport } from '@cllm/scheduler'
import type { StepEvents } from './link/step-events.js'

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
