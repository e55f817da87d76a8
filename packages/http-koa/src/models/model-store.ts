/** How far a model's way here has come. */
export interface PullProgress {
  /** What happens now, in Ollama's words where it has some. */
  readonly status: string
  /** Of the file that comes. */
  readonly digest?: string
  /** Bytes of the download. */
  readonly total?: number
  readonly completed?: number
}

/** Where models come from and are kept. */
export interface ModelStore {
  /**
   * Fetches a model that goes by a name, so that requests can use it. Throws `model_not_found` at
   * once; rejects with `model_unavailable` where no source delivers it.
   */
  pull(
    name: string,
    options: {
      readonly signal: AbortSignal
      readonly onProgress: (progress: PullProgress) => void
    },
  ): Promise<void>
  /**
   * Deletes the file of a model that was fetched. Throws `model_not_found`, and `unsupported` for a
   * file that is somebody else's.
   */
  remove(name: string): Promise<void>
}
