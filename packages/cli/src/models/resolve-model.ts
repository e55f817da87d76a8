import { mkdir } from 'node:fs/promises'
import { homedir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { CllmError, nearestName } from '@cllm/core'
import { cacheFolder as userCacheFolder } from './cache-folder.js'
import { catalog as defaultCatalog, type CatalogEntry } from './catalog.js'
import { checkGguf } from './check-file.js'
import { fetchCatalogModel } from './fetch-catalog-model.js'
import { fetchHuggingFace, findHuggingFace } from './fetch-hugging-face.js'
import type { FetchOptions } from './fetch-progress.js'
import { withLock } from './with-lock.js'

/** How a model is found. Everything has a default that suits a command line. */
export interface ResolveModelOptions extends Partial<FetchOptions> {
  /** The models that go by name. Default: cLLM's own. */
  readonly catalog?: readonly CatalogEntry[]
}

/** A model that can be loaded. */
export interface ResolvedModel {
  /** Absolute path of its GGUF. */
  readonly path: string
  /** What to call it: the catalog's name, the repository's, or the file's without `.gguf`. */
  readonly name: string
  /** What was asked for. */
  readonly spec: string
}

/**
 * Finds the model that a spec names and fetches it where it is not here yet: a name from the
 * catalog, `hf:owner/repository[:quantization]` on Hugging Face, or the path of a GGUF file.
 * A model that is here is found without network.
 *
 * @throws `model_unavailable` when there is no such model or file or no source delivers it,
 *   `model_invalid` when the file is not a GGUF, `cancelled` when the signal is aborted
 */
export async function resolveModel(
  spec: string,
  options: ResolveModelOptions = {},
): Promise<ResolvedModel> {
  const env = options.env ?? process.env
  const complete = {
    catalog: defaultCatalog,
    cwd: process.cwd(),
    cacheFolder: userCacheFolder({ env }),
    signal: new AbortController().signal,
    onProgress: () => {},
    ...options,
    env,
  }
  try {
    const { path, name } = await find(spec, complete)
    await checkGguf(path)
    return { path, name, spec }
  } catch (error) {
    if (!options.signal?.aborted) throw CllmError.from(error, 'model_unavailable')
    throw new CllmError('cancelled', `fetching the model ${spec} was cancelled`, { cause: error })
  }
}

async function find(
  spec: string,
  options: FetchOptions & { readonly catalog: readonly CatalogEntry[] },
): Promise<{ path: string; name: string }> {
  const entry = options.catalog.find(({ name }) => name === spec)
  if (entry) return { path: await fetchCatalogModel(entry, options), name: entry.name }
  if (spec.startsWith('hf:')) {
    return { path: await findOnHuggingFace(spec, options), name: spec.slice('hf:'.length) }
  }
  if (isPath(spec)) {
    const path = resolve(options.cwd, spec.replace(/^~(?=[\\/])/, homedir()))
    return { path, name: basename(path).replace(/\.gguf$/i, '') }
  }
  throw new CllmError('model_unavailable', unknown(spec, options.catalog), { details: { spec } })
}

/**
 * Checks, without looking for it, that a spec may name a model.
 *
 * @throws `model_unavailable` for a name that the catalog does not have
 */
export function checkSpec(spec: string): void {
  if (spec.startsWith('hf:') || isPath(spec)) return
  if (defaultCatalog.some(({ name }) => name === spec)) return
  throw new CllmError('model_unavailable', unknown(spec, defaultCatalog), { details: { spec } })
}

async function findOnHuggingFace(spec: string, options: FetchOptions): Promise<string> {
  if (!/^hf:[^\s/:]+\/[^\s/:]/.test(spec)) {
    throw new CllmError(
      'model_unavailable',
      `${spec} is not a Hugging Face model: hf:owner/repository[:quantization] expected`,
      { details: { spec } },
    )
  }
  const { cacheFolder, env, onProgress } = options
  const present = await findHuggingFace(spec, cacheFolder)
  if (present !== undefined) return present
  await mkdir(cacheFolder, { recursive: true })
  const lockPath = join(cacheFolder, spec.replaceAll(/[^\w.-]+/g, '_'))
  return await withLock(
    lockPath,
    {
      signal: options.signal,
      onWait: () => onProgress({ kind: 'waiting', model: spec }),
      staleMs: options.lockStaleMs,
    },
    async (signal) => {
      const fetched = await findHuggingFace(spec, cacheFolder) // by another process meanwhile
      if (fetched !== undefined) return fetched
      onProgress({ kind: 'start', model: spec, source: 'Hugging Face' })
      const path = await fetchHuggingFace(spec, {
        directory: cacheFolder,
        env,
        signal,
        onBytes: (receivedBytes, totalBytes) =>
          onProgress({ kind: 'bytes', receivedBytes, totalBytes }),
      })
      onProgress({ kind: 'done', model: spec, path })
      return path
    },
  )
}

function isPath(spec: string): boolean {
  return /[\\/]|^[.~]|\.gguf$/i.test(spec)
}

function unknown(spec: string, catalog: readonly CatalogEntry[]): string {
  const names = catalog.map(({ name }) => name)
  const near =
    names.find((name) => spec !== '' && name.includes(spec.toLowerCase())) ??
    nearestName(spec, names)
  return (
    `there is no model named "${spec}"${near === undefined ? '.' : `; did you mean ${near}?`} ` +
    `A model is a name (${names.join(', ')}), the path of a .gguf file, or ` +
    `hf:owner/repository[:quantization]`
  )
}
