import type { PartToken, ProtocolDefinition, SharedStates } from '@cllm/core'
import { CllmError, token } from '@cllm/core'
import type { OpenBatches } from '../protocols/batches/batch-store.js'
import type { McpServers } from '../protocols/mcp/mcp-servers.js'
import type { DefaultOverrides, ProtocolDefaults } from '../request/build-request.js'
import type { KeyStore } from '../security/api-key.js'
import type { KoaProtocol } from './koa-context.js'
import { accessSync, constants, mkdirSync } from 'node:fs'

/** The lowest level that a logger writes, and how to change it; pino's loggers fit. */
export interface LogLevelControl {
  /** Such as `info`. */
  level: string
}

/** A folder that this process holds, so that no other process works on it. */
export interface FolderHold {
  /** Fires if another process has taken the folder over nevertheless. */
  readonly lost: AbortSignal
  /** Checks that this process still holds the folder, as it may have been suspended; called right before each write. */
  readonly isHeld: () => boolean
}

/** Takes a folder for this process; resolves once no other process holds it. */
export type HoldFolder = (folder: string) => Promise<FolderHold>

/** The services that a server offers its protocols, by token. A plug-in may add some for its own protocols. */
export class Services {
  readonly #values = new Map<PartToken<unknown>, unknown>()

  /** Adds a service; undefined: the server does not have it. */
  set<T>(token: PartToken<T>, value: T | undefined): this {
    this.#values.set(token, value)
    return this
  }

  /** The service of a token; undefined if the server does not have it. */
  get<T>(token: PartToken<T>): T | undefined {
    return this.#values.get(token) as T | undefined
  }
}

/** The operator's default values for fields of requests, for every protocol. */
export const API_DEFAULTS: PartToken<DefaultOverrides> = token('ApiDefaults')
/** When the server started, in milliseconds since the epoch; default 0. */
export const STARTED_AT: PartToken<number> = token('StartedAt')
/** The engine's limit of waiting requests; default: the default of `EngineOptions`. */
export const MAX_QUEUED_REQUESTS: PartToken<number> = token('MaxQueuedRequests')
/** The level of the server's logger; absent if it cannot be changed. */
export const LOG_LEVEL: PartToken<LogLevelControl> = token('LogLevel')
/** The store of batches that this server shares with others; default: its own folder, if it has one. */
export const SHARED_BATCHES: PartToken<OpenBatches> = token('SharedBatches')
/** Takes a folder for this process, such as the folder of batches; default: processes do not share folders. */
export const HOLD_FOLDER: PartToken<HoldFolder> = token('HoldFolder')
/** The store of responses and conversations; absent: they are not kept. */
export const STORED_RESPONSES: PartToken<SharedStates> = token('StoredResponses')
/** The store of API keys; absent if they cannot be changed. */
export const KEY_STORE: PartToken<KeyStore> = token('KeyStore')
/** Fetches models; absent: none can be fetched. */
export const MODEL_STORE: PartToken<ModelStore> = token('ModelStore')
/** The folder with the files of the web page, as `@cllm/web` exports it; default: no page. */
export const WEB_PAGE: PartToken<URL> = token('WebPage')
/** The MCP servers that the configuration names, if any. */
export const MCP_SERVERS: PartToken<McpServers> = token('McpServers')
/** The protocols of this server; the list is complete when the first one is mounted. */
export const PROTOCOLS: PartToken<readonly KoaProtocol[]> = token('Protocols')

/** The definition of a protocol of this transport, which a plug-in passes to `host.registerProtocol`. */
export interface KoaProtocolDefinition<Options = unknown> extends ProtocolDefinition<
  Options,
  Services
> {
  /** The default values of request fields, by route; `docs/defaults.md` lists them. */
  readonly defaults?: Readonly<Record<string, ProtocolDefaults>>
  /** Makes the protocol for one server. */
  create(options: Options, services: Services): KoaProtocol
}

/**
 * Types a protocol's `create` by its options, and returns the definition unchanged.
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

/** Progress of fetching a model. */
export interface PullProgress {
  /** The current phase, under Ollama's name if Ollama has such a phase. */
  readonly status: string
  /** The digest of the file being downloaded. */
  readonly digest?: string
  /** The size of the download in bytes; `completed`: the bytes that have arrived. */
  readonly total?: number
  readonly completed?: number
}

/** Files that clients send, by their SHA-256 in hexadecimal. */
export interface BlobStore {
  /** Whether the file is there. */
  has(digest: string): Promise<boolean>
  /**
   * Keeps a file.
   *
   * @throws `invalid_request` if its bytes have another SHA-256, `body_too_large` if the disk has no room
   */
  add(digest: string, bytes: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<void>
  /**
   * Serves the model in a stored file under a name.
   *
   * @throws `invalid_request` if there is no such file, or it does not begin like a model
   */
  serve(name: string, digest: string): Promise<void>
}

/** How much memory a model takes, in bytes. */
export interface ModelMemory {
  readonly weights: number
  /** Weights, the KV cache of the slots, and buffers together: an estimate. */
  readonly total: number
  /** The memory that this machine has free. */
  readonly available: number
}

/** A model that can be fetched by its name. */
export interface FetchableModel {
  readonly name: string
  /** A description. */
  readonly title: string
  /** The size of its file. */
  readonly bytes: number
  /** Whether its file has been fetched. */
  readonly present: boolean
  /** The memory in bytes that it would take; undefined: unknown until it is fetched. */
  readonly total?: number | undefined
}

/** Fetches models and deletes their files. */
export interface ModelStore {
  /** Absent in a store that takes no files from clients. */
  readonly blobs?: BlobStore
  /**
   * Fetches a model by name, so that requests can use it. Throws `model_not_found` synchronously;
   * rejects with `model_unavailable` if no source has it.
   */
  pull(
    name: string,
    options: {
      readonly signal: AbortSignal
      readonly onProgress: (progress: PullProgress) => void
    },
  ): Promise<void>
  /**
   * The memory that a model would take with `slots` slots of `contextSize` tokens, without loading it. Absent
   * in a store that does not know.
   *
   * @throws `model_not_found`, or `unsupported` if its shape is unknown until it is fetched
   */
  memory?(name: string, slots: number, contextSize: number): Promise<ModelMemory>
  /**
   * All models that can be fetched, with the memory that each would take with `slots` slots of `contextSize`
   * tokens, and the memory in bytes that this machine has free. Absent in a store that has no list.
   */
  catalog?(
    slots: number,
    contextSize: number,
  ): Promise<{ readonly available: number; readonly models: readonly FetchableModel[] }>
  /**
   * Deletes the file of a fetched model.
   *
   * @param options.keepsFile - whether a file that a client sent is kept for another model; default: false
   * @throws `model_not_found`, or `unsupported` for a file that this store did not fetch
   */
  remove(name: string, options?: { readonly keepsFile?: boolean }): Promise<void>
}

/** Work of which, for each key, one is done after the other. */
export class Turns {
  readonly #last = new Map<string, Promise<unknown>>()

  /** Does the work when all earlier work of this key has ended. @throws what it throws */
  async take<T>(key: string, work: () => Promise<T>): Promise<T> {
    const done = (this.#last.get(key) ?? Promise.resolve()).then(work)
    const last = done.catch(() => {})
    this.#last.set(key, last)
    void last.then(() => this.#last.get(key) === last && this.#last.delete(key))
    return await done
  }
}

/**
 * Makes a folder that only the server's user can read, unless it exists.
 *
 * @param name - the name of the setting, for the message
 * @throws `invalid_configuration` if it cannot be made, read or written
 */
export function ownFolder(folder: string, name: string): void {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    accessSync(folder, constants.R_OK | constants.W_OK | constants.X_OK)
  } catch (cause) {
    const message = `${name}: the folder cannot be used: ${(cause as Error).message}`
    throw new CllmError('invalid_configuration', message, { cause })
  }
}
