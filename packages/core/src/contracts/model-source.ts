/** How a model source is asked for a model. */
export interface ModelFetchOptions {
  /** Aborted when the model is no longer wanted. */
  readonly signal: AbortSignal
  /** Reports bytes received so far, and all of them where their number is known. */
  readonly onProgress: (receivedBytes: number, totalBytes?: number) => void
}

/** The file of a model. */
export interface FetchedModel {
  /** Absolute path of the file that the backend opens. */
  readonly path: string
}

/**
 * A place that models come from. A plug-in provides it under a scheme,
 * `host.provide(MODEL_SOURCE, 'scheme', () => source)`; the spec `scheme:rest` then goes to it.
 */
export interface ModelSource {
  /**
   * Fetches a model, or finds it in the source's own cache.
   *
   * @param spec the part of the model's spec after `scheme:`
   */
  fetch(spec: string, options: ModelFetchOptions): Promise<FetchedModel>
  /**
   * What clients call the model where no `--model-id` is set. It is needed before the model is
   * fetched. Default: `spec` itself.
   */
  nameOf?(spec: string): string
}
