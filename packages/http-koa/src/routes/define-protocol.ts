import { type PartToken, type ProtocolDefinition, type SharedStates, token } from '@cllm/core'
import type { OpenBatches } from '../protocols/batches/batch-store.js'
import type { McpServers } from '../protocols/mcp/mcp-servers.js'
import type { ModelStore } from '../engines/model-store.js'
import type { DefaultOverrides, ProtocolDefaults } from '../request/build-request.js'
import type { KeyStore } from '../security/api-key.js'
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

/** What a server has for its protocols, by token. A plug-in may add what its own protocols know. */
export class Services {
  readonly #values = new Map<PartToken<unknown>, unknown>()

  /** Adds a service; undefined: the server has none. */
  set<T>(token: PartToken<T>, value: T | undefined): this {
    this.#values.set(token, value)
    return this
  }

  /** The service of a token; undefined where the server has none. */
  get<T>(token: PartToken<T>): T | undefined {
    return this.#values.get(token) as T | undefined
  }
}

/** Values that the operator has set for fields that requests leave out, on every protocol. */
export const API_DEFAULTS: PartToken<DefaultOverrides> = token('ApiDefaults')
/** When the server started, in milliseconds since the epoch; default 0. */
export const STARTED_AT: PartToken<number> = token('StartedAt')
/** The engine's limit of waiting requests; default: that of `EngineOptions`. */
export const MAX_QUEUED_REQUESTS: PartToken<number> = token('MaxQueuedRequests')
/** The level of the server's logger, where it can be changed. */
export const LOG_LEVEL: PartToken<LogLevelControl> = token('LogLevel')
/** Batches that this server shares with others; default: those of its own folder, if it has one. */
export const SHARED_BATCHES: PartToken<OpenBatches> = token('SharedBatches')
/** Keeps a folder for this process, such as that of batches; default: processes do not share folders. */
export const HOLD_FOLDER: PartToken<HoldFolder> = token('HoldFolder')
/** Where responses and conversations are kept, if anywhere. */
export const STORED_RESPONSES: PartToken<SharedStates> = token('StoredResponses')
/** The API keys, where they can be changed. */
export const KEY_STORE: PartToken<KeyStore> = token('KeyStore')
/** Where models are fetched from, if anywhere. */
export const MODEL_STORE: PartToken<ModelStore> = token('ModelStore')
/** The folder with the files of the web page, as `@cllm/web` exports it; default: no page. */
export const WEB_PAGE: PartToken<URL> = token('WebPage')
/** The MCP servers that the configuration names, if any. */
export const MCP_SERVERS: PartToken<McpServers> = token('McpServers')
/** The protocols of this server; the list is complete when the first one is mounted. */
export const PROTOCOLS: PartToken<readonly KoaProtocol[]> = token('Protocols')

/** A protocol of this transport: what a plug-in gives to `host.registerProtocol`. */
export interface KoaProtocolDefinition<Options = unknown> extends ProtocolDefinition<
  Options,
  Services
> {
  /** The values of fields that requests leave out, by route; `docs/defaults.md` lists them. */
  readonly defaults?: Readonly<Record<string, ProtocolDefaults>>
  /** Makes the protocol for one server. */
  create(options: Options, services: Services): KoaProtocol
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
