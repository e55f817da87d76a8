import type { ProtocolDefinition } from '@cllm/core'
import type { OpenBatches } from '../protocols/batches/batch-store.js'
import type { ModelStore } from '../engines/model-store.js'
import type { DefaultOverrides, ProtocolDefaults } from '../request/protocol-defaults.js'
import type { KeyStore } from '../security/key-store.js'
import type { KoaProtocol } from './koa-context.js'

/** The lowest level that a logger writes, and how to change it; pino's loggers fit. */
export interface LogLevelControl {
  /** Such as `info`. */
  level: string
}

/** A folder that no other process works on. */
export interface FolderHold {
  /** Fires when another process has taken it over all the same. */
  readonly lost: AbortSignal
  /** Looks whether it is still this process's, which may have stood still: asked right before each write. */
  readonly isHeld: () => boolean
}

/** Keeps other processes from running what is in a folder; resolves when none does. */
export type HoldFolder = (folder: string) => Promise<FolderHold>

/** What a server hands to each protocol it makes. */
export interface ProtocolContext {
  /** Values that the operator has set for fields that requests leave out, on every protocol. */
  readonly defaults: DefaultOverrides
  /** When the server started, in milliseconds since the epoch. */
  readonly started: number
  /** The engine's limit of waiting requests; default: that of `EngineOptions`. */
  readonly maxQueuedRequests?: number
  /** The level of the server's logger, where it can be changed. */
  readonly log?: LogLevelControl
  /** Batches that this server shares with others; default: those of its own folder, if it has one. */
  readonly batches?: OpenBatches
  /** Keeps a folder for this process, such as that of batches; default: processes do not share folders. */
  readonly holdFolder?: HoldFolder
  /** The API keys, where they can be changed. */
  readonly keys?: KeyStore
  /** Where models are fetched from, if anywhere. */
  readonly store?: ModelStore
  /** The folder with the files of the web page, as `@cllm/web` exports it; default: no page. */
  readonly page?: URL
  /** The protocols of this server; the list is complete when the first one is mounted. */
  readonly protocols: readonly KoaProtocol[]
}

/** A protocol of this transport: what a plug-in gives to `host.registerProtocol`. */
export interface KoaProtocolDefinition<Options = unknown> extends ProtocolDefinition<
  Options,
  ProtocolContext
> {
  /** The values of fields that requests leave out, by route; `docs/defaults.md` lists them. */
  readonly defaults?: Readonly<Record<string, ProtocolDefaults>>
  /** Makes the protocol for one server. */
  create(options: Options, context: ProtocolContext): KoaProtocol
}

/**
 * Types a protocol's `create` by its options, and returns the definition as it is.
 *
 * @example
 * const ping = defineProtocol({
 *   name: 'ping',
 *   doc: 'Answers GET /ping.',
 *   create: () => ({
 *     name: 'ping',
 *     routes: [
 *       { method: 'get', path: '/ping', access: 'open', summary: 'Pong', handle: () => 'pong' },
 *     ],
 *   }),
 * })
 */
export function defineProtocol<Options>(
  definition: KoaProtocolDefinition<Options>,
): KoaProtocolDefinition<Options> {
  return definition
}
