import type { CllmError } from '../errors/cllm-error.js'
import type { AdapterChoice } from './model/model-info.js'
import type { EngineClient, EngineInfo } from './engine/engine-client.js'
import type { EngineStatistics } from './engine/engine-statistics.js'
import type { Recording } from './engine/recording.js'
import type { SchedulerInfo } from './scheduling/scheduler-policy.js'
import type { Services } from './services.js'
import type { ModelPresets } from './engine/generate-request.js'

/** The load state of a model. */
export type ModelState = 'unloaded' | 'loading' | 'loaded' | 'unloading'

/** The status of a model. */
export interface ModelStatus {
  readonly name: string
  readonly state: ModelState
  /** Pieces of work that hold it in memory now. */
  readonly users: number
  /** Requests and calls that wait for it to be loaded. */
  readonly waiting: number
  /** What its engine serves, where that is known without asking: after its first load. */
  readonly info: EngineInfo | undefined
  /** The policy that its engine starts with, and the others there are: after its first load. */
  readonly scheduler?: SchedulerInfo | undefined
  /** What the flight recorder had when the model last left memory, where there is a recorder. */
  readonly recording?: Recording | undefined
  /** What its engines had counted when the last one left memory; the next one's statistics go on from it. */
  readonly past?: EngineStatistics | undefined
  /** When it is unloaded if unused, in milliseconds since the epoch; undefined if it is kept. */
  readonly expiresAt: number | undefined
  /** Why it could not be loaded last time. */
  readonly error: CllmError | undefined
  /** How often it was loaded, and unloaded to make room for another one; absent: it is always there. */
  readonly loads?: number
  readonly swaps?: number
  /** Further names of it; default: none. */
  readonly aliases?: readonly string[]
  /** Words for clients that sort models by them; default: none. */
  readonly tags?: readonly string[]
}

/** How urgently a model is needed. */
export interface ModelUrgency {
  /** Higher is more urgent; default 0. */
  readonly priority?: number
  /** Milliseconds from now until the first token is due; default: none. */
  readonly deadlineMs?: number
}

/** How a model is opened. */
export interface OpenOptions {
  /**
   * From the first call on, the model stays in memory until this signal fires; calls after that fail
   * with `cancelled`. Default, and always for batches (by `urgency`), which give way to clients: each
   * call and each request by itself holds it.
   */
  readonly until?: AbortSignal
  /**
   * Milliseconds that it stays in memory after its last use, from this use on; 0 unloads it then,
   * Infinity keeps it. Default: as it is.
   */
  readonly keepAliveMs?: number
  /**
   * Looks at an engine that is in memory and is no use of it: opening throws `engine_unavailable` for
   * one that is not. Default false.
   */
  readonly peek?: boolean
  /** Of the work that it is opened for, while that waits for the model. Default: priority 0, no deadline. */
  readonly urgency?: ModelUrgency
  /** Asks for the load itself, which a directory may do where it does not load for requests. Default false. */
  readonly load?: boolean
}

/** How models come into memory. */
export interface ModelLoading {
  /** Whether a request loads its model. */
  readonly autoload: boolean
  /** Models in memory at a time. */
  readonly maxLoaded: number
  /** What decides which; see `--model-scheduler`. */
  readonly scheduler: string
}

/** A model with something of its own, which requests can name like a model. */
export interface AdaptedModel {
  /** Of a model with one of its adapters `model:adapter`. */
  readonly name: string
  /** The model's name. */
  readonly model: string
  /** Default: none, as with presets. */
  readonly adapter?: string
}

/** The engines that transports can reach. */
export interface EngineDirectory {
  /** Further names of models, with values for what requests leave out. Default: there are none. */
  readonly presets?: ModelPresets
  /** How models come into memory. Default: as many as there are, by the requests for them. */
  readonly loading?: ModelLoading | undefined
  /** Names of the models, the default one first. */
  list(): readonly string[]
  /** Models with adapters, and presets, which are not in `list`: `open` takes their names. Default: none. */
  adapted?(): readonly AdaptedModel[]
  /** The model's own name for a name or alias, or the default one. Throws `model_not_found`. */
  nameOf(id?: string): string
  /**
   * The engine of a model, or of the default one. A model that is not in memory is loaded by the
   * first call. Throws `model_not_found`, `engine_unavailable` where a peek finds none, and
   * `invalid_request` for one that is not in memory where requests load none.
   */
  open(id?: string, options?: OpenOptions): EngineClient
  /** The adapters of requests to a model that name none. Default: none. */
  defaultAdapters?(id?: string): readonly AdapterChoice[]
  /** Sets them. Throws `model_not_found`. */
  setDefaultAdapters?(choices: readonly AdapterChoice[], id?: string): void
  /** The status of a model, without loading it. Throws `model_not_found`. */
  status(id?: string): ModelStatus
  /**
   * Unloads a model as soon as it is unused, and resolves when it is; a model that is always loaded
   * stays. Throws `model_not_found`.
   */
  unload(id: string): Promise<void>
}

/** A family of routes (the native API, OpenAI's, …) that shares a transport with others. */
export interface Protocol<Router = unknown> {
  readonly name: string
  /** Adds routes of its own to the transport's router. Called once, before listening. Default: it has none. */
  mount?(router: Router, directory: EngineDirectory): void
}

/** Where it can be reached. */
export interface TransportAddress {
  /** Such as `http://127.0.0.1:8080`. */
  readonly url: string
}

/** Brings requests in and answers out: HTTP, a socket, a queue. */
export interface Transport {
  readonly name: string
  /** Resolves when requests can come. */
  listen(): Promise<TransportAddress>
  /**
   * Answers new requests with `shutting_down` from now on, readiness probes among them; what is under
   * way goes on. Called before {@link close}, so that load balancers see it.
   */
  drain?(): void
  /**
   * Takes no new connections, lets what is under way finish until `deadline` (milliseconds of the
   * clock), then cuts it.
   */
  close(deadline: number): Promise<void>
}

/** What a server gives its transports. */
export interface TransportContext extends Services {
  readonly directory: EngineDirectory
}

/** Makes a transport for a server; see `createServer`. */
export type TransportFactory = (context: TransportContext) => Transport
