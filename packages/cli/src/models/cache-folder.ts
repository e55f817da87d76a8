import { homedir } from 'node:os'
import { join, resolve } from 'node:path'

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
  const { env, platform = process.platform, home = homedir() } = options
  if (env['CLLM_CACHE']) return resolve(env['CLLM_CACHE'])
  if (platform === 'darwin') return join(home, 'Library', 'Caches', 'cllm', 'models')
  if (platform === 'win32') {
    return join(env['LOCALAPPDATA'] || join(home, 'AppData', 'Local'), 'cllm', 'Cache', 'models')
  }
  return join(env['XDG_CACHE_HOME'] || join(home, '.cache'), 'cllm', 'models')
}
