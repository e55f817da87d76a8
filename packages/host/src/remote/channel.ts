import type {
  AddressedEvent,
  EngineInfo,
  EngineCalls,
  GenerateRequest,
  PolicySetting,
  RecordedStep,
  SerializedError,
} from '@cllm/core'

/** A message to an engine. */
export type ToEngine =
  | Submission
  | { readonly type: 'cancel'; readonly id: string; readonly reason?: string }
  /** The client abandoned this call. */
  | { readonly type: 'leave'; readonly call: number }
  | Call

/** Submits a request. */
export interface Submission {
  readonly type: 'submit'
  readonly id: string
  readonly request: GenerateRequest
}

/** The name of a call; `recordingParts` is only for the workers of a cluster. */
export type EngineCallName = keyof EngineCalls | 'recordingParts'

/** Calls a method of the engine. */
export interface Call {
  readonly type: 'call'
  readonly call: number
  readonly name: EngineCallName
  readonly arguments: readonly unknown[]
}

/** A request that an engine queued. */
export interface QueuedRequest {
  readonly id: string
  readonly maxTokens: number
  /** Hashes of the whole blocks of its prompt. */
  readonly blocks: readonly number[]
}

/** Data besides events that an engine sends along with its next message. */
export interface EngineTelemetry {
  readonly steps: readonly RecordedStep[]
  readonly queued: readonly QueuedRequest[]
  /** Milliseconds of work since its start. */
  readonly busyMs: number
}

/** A message of an engine, with telemetry if there is any. */
export type FromEngine = EngineMessage & { readonly telemetry?: EngineTelemetry }

/** A message of an engine. */
export type EngineMessage =
  /** The engine can take requests; sent once, first. `now` is its clock's time; default: the receiver's. */
  | {
      readonly type: 'ready'
      readonly info: EngineInfo
      readonly scheduler?: PolicySetting
      readonly now?: number
    }
  /** The engine could not start; sent instead of `ready`. */
  | { readonly type: 'failed'; readonly error: SerializedError }
  /** All events of one step. */
  | { readonly type: 'events'; readonly events: readonly AddressedEvent[] }
  /** A request got a slot; its sampler is made now, which compiles its constraint. */
  | { readonly type: 'preparing'; readonly id: string }
  /** Its sampler is ready; its steps follow. */
  | { readonly type: 'prepared'; readonly id: string }
  /** Long texts are being tokenized; sent once a second. */
  | { readonly type: 'tokenizing' }
  /** A step begins, after a step without tokens for anybody. */
  | { readonly type: 'step' }
  | { readonly type: 'result'; readonly call: number; readonly value: unknown }
  | { readonly type: 'error'; readonly call: number; readonly error: SerializedError }

/** A connection to the other side: messages arrive whole and in order, or the channel closes. */
export interface Channel<Out, In> {
  /** Sends a message; messages to a closed channel are lost. */
  send(message: Out): void
  /** Sets the handler of messages. */
  onMessage(listener: (message: In) => void): void
  /** Sets the handler of the end of the channel, called once with the reason if known. */
  onClose(listener: (reason: string) => void): void
}
