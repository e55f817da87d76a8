import { homedir } from 'node:os'
import path from 'node:path'

/** Makes a relative path absolute. */
export const resolvePath = (value: string | null, folder: string): string | null =>
  value === null ? value : path.resolve(folder, value)

/** In place of a folder: the server of the cluster. */
export const ofCluster = 'cluster'

/** The same for a folder, which can also be the cluster's server. */
export const resolveShared = (value: string | null, folder: string): string | null =>
  value === ofCluster ? value : resolvePath(value, folder)

/** The same for a projector, which can also be `auto` or `none`. */
export const resolveProjector = (value: string | null, folder: string): string | null => {
  if (value === 'none') return null
  return value === 'auto' ? value : resolvePath(value, folder)
}

/** The scheme of `scheme:rest`; a single letter is a Windows drive instead. */
export const schemeOf = (spec: string): string | undefined =>
  /^([a-z][a-z0-9+.-]+):/.exec(spec)?.[1]

const isPath = (spec: string) => schemeOf(spec) === undefined && /[/\\]|\.gguf$/i.test(spec)

/**
 * The same for a model's spec, which can also be a catalog name, `hf:owner/repo` or `scheme:rest`.
 * `~/` is the user's home folder: no shell expands it in a file or in `--model=~/…`.
 */
export const resolveModelSpec = (spec: string, folder: string): string => {
  if (/^~[/\\]/.test(spec)) return path.join(homedir(), spec.slice(2))
  return isPath(spec) ? path.resolve(folder, spec) : spec
}

/** The same for a plugin, which can also be the name of a package. */
export const resolvePluginName = (use: string, folder: string): string =>
  /^\.{0,2}[/\\]/.test(use) ? path.resolve(folder, use) : use
