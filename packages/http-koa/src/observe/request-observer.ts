import type { CllmError, GenerateEvent, GenerateRequest } from '@cllm/core'

/** A request that is given to an engine. */
export interface ObservedRequest {
  /** The name of the engine's model. */
  readonly model: string
  readonly request: GenerateRequest
  /** Milliseconds of the clock. */
  readonly at: number
}

/** Follows one request. */
export interface RequestWatch {
  /** Something came for it, at this time of the clock. */
  heard(event: GenerateEvent, now: number): void
  /** Nothing more comes: its last event was heard, or it failed; `cancelled` when its client left. */
  ended(now: number, error?: CllmError): void
}

/** Is told of every request that any protocol gives to an engine. */
export interface RequestObserver {
  /** A request is submitted. What it throws is the request's failure. */
  submitted(request: ObservedRequest): RequestWatch
  /** Another policy is in force. */
  policySet?(model: string, policy: string): void
}
