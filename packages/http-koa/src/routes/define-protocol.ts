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

/** Progress of fetching a model. */
export interface PullProgress {
  /** The current phase, in Ollama's words where it has any. */
  readonly status: string
  /** Of the file being downloaded. */
  readonly digest?: string
  /** Bytes of the download. */
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
   * @throws `invalid_request` when its bytes have another SHA-256, `body_too_large` when there is no room
   */
  add(digest: string, bytes: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<void>
  /**
   * Serves the model in a file under a name.
   *
   * @throws `invalid_request` when there is no such file, or none with the head of a model
   */
  serve(name: string, digest: string): Promise<void>
}

/** How much memory a model takes, in bytes. */
export interface ModelMemory {
  readonly weights: number
  /** With the KV cache of its slots and its buffers: an estimate. */
  readonly total: number
  /** What this machine has left. */
  readonly available: number
}

/** A model that can be fetched by its name. */
export interface FetchableModel {
  readonly name: string
  /** What it is, in words. */
  readonly title: string
  /** Of its file. */
  readonly bytes: number
  /** Whether its file is here. */
  readonly present: boolean
  /** Bytes of memory that it would take; undefined: not known before it is fetched. */
  readonly total?: number | undefined
}

/** Fetches models and deletes their files. */
export interface ModelStore {
  /** Left out by a store that takes no files. */
  readonly blobs?: BlobStore
  /**
   * Fetches a model by name, so that requests can use it. Throws `model_not_found` synchronously;
   * rejects with `model_unavailable` when no source has it.
   */
  pull(
    name: string,
    options: {
      readonly signal: AbortSignal
      readonly onProgress: (progress: PullProgress) => void
    },
  ): Promise<void>
  /**
   * How much memory a model would take with this many slots of this many tokens, without loading it. Left
   * out by a store that does not know.
   *
   * @throws `model_not_found`, or `unsupported` where its shape is not known before it is fetched
   */
  memory?(name: string, slots: number, contextSize: number): Promise<ModelMemory>
  /**
   * All models that can be fetched, with the memory that each would take with this many slots of this many
   * tokens, and the bytes that this machine has left. Left out by a store that has no list.
   */
  catalog?(
    slots: number,
    contextSize: number,
  ): Promise<{ readonly available: number; readonly models: readonly FetchableModel[] }>
  /**
   * Deletes the file of a fetched model.
   *
   * @param options.keepsFile - whether a file that a client sent stays, for another model; default: false
   * @throws `model_not_found`, or `unsupported` for a file that this store did not fetch
   */
  remove(name: string, options?: { readonly keepsFile?: boolean }): Promise<void>
}

/**
 * Makes a folder that only the server's user can read, unless it is there.
 *
 * @param name - of the setting, for the message
 * @throws `invalid_configuration` where it cannot be made, read or written
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
