import type { CllmError } from '../errors/cllm-error.js'
import type { EngineClient, EngineInfo } from './engine-client.js'

/** Where a model is on its way into memory and out of it. */
export type ModelState = 'unloaded' | 'loading' | 'loaded' | 'unloading'

/** A model as seen from outside. */
export interface ModelStatus {
  readonly name: string
  readonly state: ModelState
  /** Pieces of work that hold it in memory now. */
  readonly users: number
  /** Those that wait for it to be loaded. */
  readonly waiting: number
  /** What its engine serves, where that is known without asking: after its first load. */
  readonly info: EngineInfo | undefined
  /** When it leaves if nobody uses it, in milliseconds of the clock; undefined while it need not. */
  readonly expiresAt: number | undefined
  /** Why it could not be loaded last time. */
  readonly error: CllmError | undefined
}

/** How a model is opened. */
export interface OpenOptions {
  /**
   * From the first call on, the model stays in memory until this signal fires; calls after that fail
   * with `cancelled`. Default: each call and each request by itself holds it.
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
}

/** The engines that transports can reach. */
export interface EngineDirectory {
  /** Names of the models, the default one first. */
  list(): readonly string[]
  /** The model's own name for a name or alias, or the default one. Throws `model_not_found`. */
  nameOf(id?: string): string
  /**
   * The engine of a model, or of the default one. A model that is not in memory is loaded by the
   * first call. Throws `model_not_found`, and `engine_unavailable` where a peek finds none.
   */
  open(id?: string, options?: OpenOptions): EngineClient
  /** How a model is, without loading it. Throws `model_not_found`. */
  status(id?: string): ModelStatus
  /**
   * Takes a model out of memory as soon as nobody uses it, and resolves when it is; one that is
   * always there stays. Throws `model_not_found`.
   */
  unload(id: string): Promise<void>
}
