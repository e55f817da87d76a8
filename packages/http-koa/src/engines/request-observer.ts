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

/** Watches nothing. */
export const unwatched: RequestWatch = Object.freeze({ onEvent() {}, onEnd() {} })

/** An input that was embedded, or failed. */
export interface EmbeddedInput {
  readonly model: string
  /** 0 where it failed. */
  readonly tokens: number
  /** Milliseconds from asking to having. */
  readonly ms: number
  readonly error?: CllmError
}

/** Observes every request that any protocol submits to an engine. */
export interface RequestObserver {
  /** A request is submitted. An error thrown here fails the request. */
  onSubmit(request: ObservedRequest): RequestWatch
  /** An input was embedded, or failed. */
  onEmbedded?(input: EmbeddedInput): void
  /** The policy was changed. */
  onPolicy?(model: string, policy: string): void
}
