import type { CllmError, GenerateEvent, GenerateRequest } from '@cllm/core'

/** A request submitted to an engine. */
export interface ObservedRequest {
  /** The name of the engine's model. */
  readonly model: string
  readonly request: GenerateRequest
  /** Milliseconds of the clock. */
  readonly at: number
}

/** Observes one request. */
export interface RequestWatch {
  /** An event of the request, with the time of the clock. */
  onEvent(event: GenerateEvent, now: number): void
  /** The request ended or failed; `cancelled` when its client left. */
  onEnd(now: number, error?: CllmError): void
}

/** Observes every request that any protocol submits to an engine. */
export interface RequestObserver {
  /** A request is submitted. An error thrown here fails the request. */
  onSubmit(request: ObservedRequest): RequestWatch
  /** The policy was changed. */
  onPolicy?(model: string, policy: string): void
}
