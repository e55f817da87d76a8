import type { Channel, FromEngine, ToEngine } from '../remote/channel.js'

/** A running engine process. */
export interface EngineLink {
  /** To the engine, which sends `ready` or `failed`, or closes it. What `send` throws ends that request or call alone. */
  readonly channel: Channel<ToEngine, FromEngine>
  /** Ends it at once; its channel closes. */
  readonly kill: () => void
}

/** Starts a process with an engine. */
export type StartEngine = () => EngineLink
