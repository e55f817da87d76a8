import type { AddressedEvent, EngineInfo, GenerateRequest } from '../contracts/engine-client.js'
import type { PolicySetting } from '../contracts/scheduler-info.js'
import type { SerializedError } from '../errors/cllm-error.js'
import type { EngineNews } from '../recorder/engine-news.js'
import type { EngineCallName } from './engine-control.js'

/** What a client sends to an engine elsewhere. */
export type ToEngine =
  | { readonly type: 'submit'; readonly id: string; readonly request: GenerateRequest }
  | { readonly type: 'cancel'; readonly id: string; readonly reason?: string }
  /** Nobody waits for the answer to this call any more. */
  | { readonly type: 'leave'; readonly call: number }
  | {
      readonly type: 'call'
      readonly call: number
      readonly name: EngineCallName
      readonly arguments: readonly unknown[]
    }

/** What an engine sends to its client: a message, and what else there is to tell. */
export type FromEngine = EngineMessage & { readonly news?: EngineNews }

/** What an engine says. */
export type EngineMessage =
  /** The engine can take requests; sent once, first. */
  | { readonly type: 'ready'; readonly info: EngineInfo; readonly scheduler?: PolicySetting }
  /** The engine could not start; sent instead. */
  | { readonly type: 'failed'; readonly error: SerializedError }
  /** All events of one step. */
  | { readonly type: 'events'; readonly events: readonly AddressedEvent[] }
  /**
   * A step begins that other messages do not tell of: with requests that are computed for the first
   * time, or after a step without events.
   */
  | { readonly type: 'step'; readonly admitted: readonly string[] }
  | { readonly type: 'result'; readonly call: number; readonly value: unknown }
  | { readonly type: 'error'; readonly call: number; readonly error: SerializedError }

/** A way to the other side: messages arrive whole, in order, or the channel closes. */
export interface Channel<Out, In> {
  /** Sends a message; one to a closed channel is lost, which `onClose` tells. */
  send(message: Out): void
  /** Says where messages go that come. */
  onMessage(listener: (message: In) => void): void
  /** Called once, when no message can come any more, with what is known of why. */
  onClose(listener: (reason: string) => void): void
}
