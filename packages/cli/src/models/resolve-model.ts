import { mkdir } from 'node:fs/promises'
import { homedir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { CllmError, type ModelSource, nearestName } from '@cllm/core'
import { schemeOf } from '../config/paths.js'
import { cacheFolder as userCacheFolder } from './cache-folder.js'
import { catalog as defaultCatalog, type CatalogEntry, findEntry } from './catalog/catalog.js'
import { checkGguf, checkReadable } from './fetch/check-file.js'
import { fetchCatalogModel } from './fetch/fetch-catalog-model.js'
import { fetchChecked, findHuggingFace } from './fetch/fetch-hugging-face.js'
import { fetchFromSource, sourceOf } from './fetch/fetch-from-source.js'
import type { FetchOptions } from './fetch/fetch-progress.js'
import { partsOf } from './fetch/published-hash.js'
import { inResumeFolder, resumeFolder } from './fetch/resume-folder.js'
import { withLock } from './fetch/with-lock.js'
import { replaceFile } from './replace-file.js'

/** How to find a model. All fields have defaults for a command line. */
export interface ResolveModelOptions extends Partial<FetchOptions> {
  /** The catalog of named models. Default: cLLM's own. */
  readonly catalog?: readonly CatalogEntry[]
  /** The plug-ins' model sources, by scheme. Default: none. */
  readonly sources?: ModelSources
  /** Whether the file must be a GGUF, as llama.cpp requires. Default: true. */
  readonly mustBeGguf?: boolean
}

/** Model sources by their scheme. */
export type ModelSources = ReadonlyMap<string, ModelSource>

/** A model that can be loaded. */
export interface ResolvedModel {
  /** Absolute path of its file. */
  readonly path: string
  /** Its name: the catalog's, the repository's, or the file's without `.gguf`. */
  readonly name: string
  /** The requested spec. */
  readonly spec: string
}

/**
 * Finds the model that a spec names and fetches it if necessary: a name from the catalog,
 * `hf:owner/repository[:quantization]` on Hugging Face, `scheme:rest` from a plug-in's model
 * source, or the path of a file. A model that is already downloaded needs no network.
 *
 * @throws `model_unavailable` when there is no such model or file or every source fails,
 *   `model_invalid` when the file is not a GGUF, `cancelled` when the signal is aborted
 */
export async function resolveModel(
  spec: string,
  options: ResolveModelOptions = {},
): Promise<ResolvedModel> {
  const env = options.env ?? process.env
  const complete = {
    catalog: defaultCatalog,
    sources: new Map<string, ModelSource>(),
    mustBeGguf: true,
    cwd: process.cwd(),
    cacheFolder: userCacheFolder({ env }),
    signal: new AbortController().signal,
    onProgress: () => {},
    ...options,
    env,
  }
  try {
    const name = modelName(spec, complete)
    const path = await find(spec, complete)
    await (complete.mustBeGguf ? checkGguf(path) : checkReadable(path))
    return { path, name, spec }
  } catch (error) {
    if (!options.signal?.aborted) throw CllmError.from(error, 'model_unavailable')
    throw new CllmError('cancelled', `fetching the model ${spec} was cancelled`, { cause: error })
  }
}

async function find(
  spec: string,
  options: FetchOptions & Pick<Required<ResolveModelOptions>, 'catalog' | 'sources'>,
): Promise<string> {
  const entry = findEntry(options.catalog, spec)
  if (entry) return await fetchCatalogModel(entry, options)
  if (spec.startsWith('hf:')) return await findOnHuggingFace(spec, options)
  const scheme = schemeOf(spec)
  if (scheme !== undefined) return await fetchFromSource(spec, scheme, options)
  return resolve(options.cwd, spec.replace(/^~(?=[\\/])/, homedir()))
}

/**
 * The name for a spec's model, without looking for the model.
 *
 * @throws `model_unavailable` for a name that the catalog does not have, or a scheme without a source
 */
export function modelName(
  spec: string,
  {
    catalog = defaultCatalog,
    sources = new Map(),
    mustBeGguf = true,
  }: Pick<ResolveModelOptions, 'catalog' | 'sources' | 'mustBeGguf'> = {},
): string {
  if (findEntry(catalog, spec) !== undefined) return spec
  if (spec.startsWith('hf:')) return spec.slice('hf:'.length)
  const scheme = schemeOf(spec)
  if (scheme !== undefined) {
    const rest = spec.slice(scheme.length + 1)
    return sourceOf(spec, scheme, sources).nameOf?.(rest) ?? rest
  }
  if (isPath(spec) || !mustBeGguf) return basename(spec).replace(/\.gguf$/i, '')
  throw new CllmError('model_unavailable', unknown(spec, catalog), { details: { spec } })
}

async function findOnHuggingFace(spec: string, options: FetchOptions): Promise<string> {
  if (!/^hf:[^\s/:]+\/[^\s/:]/.test(spec)) {
    throw new CllmError(
      'model_unavailable',
      `${spec} is not a Hugging Face model: expected hf:owner/repository[:quantization]`,
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
      const directory = resumeFolder(lockPath)
      const path = await inResumeFolder(directory, signal, async () => {
        const fetchedFile = await fetchChecked(spec, {
          directory,
          env,
          signal,
          model: spec,
          onBytes: (receivedBytes, totalBytes) =>
            onProgress({ kind: 'bytes', receivedBytes, totalBytes }),
          onProgress,
        })
        // a file is found by its name only when it was checked; the first one names the model
        for (const file of partsOf(fetchedFile).toReversed()) {
          await replaceFile(file, join(cacheFolder, basename(file)))
        }
        return join(cacheFolder, basename(fetchedFile))
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
