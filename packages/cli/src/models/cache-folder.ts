import { join, resolve } from 'node:path'
import type { LoadedConfig } from '../config/load-config.js'
import { homeFolder } from '../config/paths.js'

/** The inputs that determine the cache's location. */
export interface CacheFolderOptions {
  readonly env: NodeJS.ProcessEnv
  /** Default: this machine's. */
  readonly platform?: NodeJS.Platform
  /** The user's home folder. Default: this user's. */
  readonly home?: string
}

/**
 * The folder for downloaded models: `$CLLM_CACHE` if that is set, otherwise
 * `cllm/models` in the user's cache folder (`$XDG_CACHE_HOME` or `~/.cache`; `~/Library/Caches` on
 * macOS; `%LOCALAPPDATA%` on Windows). It need not exist. (env-paths has the same rules, for the
 * process's own environment only.)
 */
export function cacheFolder(options: CacheFolderOptions): string {
  const { CLLM_CACHE: own } = options.env
  return own ? resolve(own) : join(userFolder(options), 'models')
}

/** The folder for downloaded models with this configuration. */
export const modelsFolder = ({ config }: LoadedConfig, env: NodeJS.ProcessEnv): string =>
  config.models.cache ?? cacheFolder({ env })

/**
 * The folder for libraries that `cllm native build` has built: `native` in `$CLLM_CACHE` if that is
 * set, otherwise `cllm/native` in the user's cache folder. It need not exist.
 */
export const nativeFolder = (options: CacheFolderOptions): string => ownFolder('native', options)

/** The folder for libraries that `cllm gpu add` fetches: `gpu`, beside that of `cllm native build`. It need not exist. */
export const gpuFolder = (options: CacheFolderOptions): string => ownFolder('gpu', options)

/** The folder for the compiled code of cLLM's own modules, in the user's cache folder. It need not exist. */
export const compiledFolder = (options: CacheFolderOptions): string =>
  join(userFolder(options), 'compiled')

/** The folder for what engines have learned, in the user's cache folder. It need not exist. */
export const learnedFolder = (options: CacheFolderOptions): string =>
  join(userFolder(options), 'learned')

function ownFolder(name: string, options: CacheFolderOptions): string {
  const { CLLM_CACHE: own } = options.env
  return join(own ? resolve(own) : userFolder(options), name)
}

/** The user's folder for caches, or for logs and the like. */
export function userFolder(options: CacheFolderOptions, kind: 'cache' | 'state' = 'cache'): string {
  const { env, platform = process.platform } = options
  const isCache = kind === 'cache'
  // Called only if needed: a user who names the folder need not have a home.
  const home = () => options.home ?? homeFolder()
  if (platform === 'darwin') return join(home(), 'Library', isCache ? 'Caches' : 'Logs', 'cllm')
  if (platform === 'win32') {
    const local = env['LOCALAPPDATA'] || join(home(), 'AppData', 'Local')
    return join(local, 'cllm', isCache ? 'Cache' : '')
  }
  const named = env[isCache ? 'XDG_CACHE_HOME' : 'XDG_STATE_HOME']
  return join(named || join(home(), isCache ? '.cache' : '.local/state'), 'cllm')
}
