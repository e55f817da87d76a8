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

/** Fetches models and deletes their files. */
export interface ModelStore {
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
   * Deletes the file of a fetched model.
   *
   * @throws `model_not_found`, or `unsupported` for a file that this store did not fetch
   */
  remove(name: string): Promise<void>
}
