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
   * @throws `model_not_found`, or `unsupported` for a file that this store did not fetch
   */
  remove(name: string): Promise<void>
}
