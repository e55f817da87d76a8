/** Limits on models in memory. */
export interface ModelPoolOptions {
  /** Models in memory at a time; default: as many as fit. */
  readonly maxLoaded: number
  /** Milliseconds that a model stays after its last use; default Infinity. */
  readonly keepAliveMs: number
  /** Whether a request loads its model; default true. Otherwise only who asks for the load itself does. */
  readonly autoload: boolean
  /** Requests that may wait for a model to be loaded; default 1,024. */
  readonly maxWaiting: number
}

/** The defaults of {@link ModelPoolOptions}. */
export const defaultModelPoolOptions: ModelPoolOptions = Object.freeze({
  maxLoaded: Infinity,
  keepAliveMs: Infinity,
  autoload: true,
  maxWaiting: 1024,
})
