import { basename, join, resolve } from 'node:path'
import { CllmError, defined, messageOf, type ModelSource } from '@cllm/core'
import { suggestion } from '../config/messages.js'
import { resolveModelSpec, schemeOf } from '../config/paths.js'
import { cacheFolder as userCacheFolder } from './cache-folder.js'
import {
  catalog as defaultCatalog,
  type CatalogEntry,
  findEntry,
  meantModel,
} from './catalog/catalog.js'
import { checkGguf, checkReadable, exists, projectorBeside } from './model-files.js'
import { fetchCatalogModel } from './fetch/fetch-catalog-model.js'
import { fetchFromHuggingFace } from './fetch/fetch-hugging-face.js'
import type { FetchOptions } from './fetch/fetch-once.js'

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
  /** Absolute path of its projector for images or sounds. Absent: none is known. */
  readonly projector?: string
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
    const entry = findEntry(complete.catalog, spec)
    const isHere = entry && (await exists(join(complete.cacheFolder, entry.file)))
    const path = await find(spec, complete)
    await (complete.mustBeGguf ? checkGguf(path) : checkReadable(path))
    if (!complete.mustBeGguf || complete.textOnly) return { path, name, spec }
    const projector = await projectorOf(entry, complete, isHere === true)
    return { path, name, spec, ...defined({ projector: projector ?? projectorBeside(path) }) }
  } catch (error) {
    if (!options.signal?.aborted) throw CllmError.from(error, 'model_unavailable')
    throw new CllmError('cancelled', `fetching the model ${spec} was cancelled`, { cause: error })
  }
}

/** Whether a model may come with a projector, as far as that is known before it is fetched. */
export function mayHaveProjector(spec: string): boolean {
  const entry = findEntry(defaultCatalog, spec)
  if (entry !== undefined) return entry.projector !== undefined
  return schemeOf(spec) !== undefined || projectorBeside(spec) !== undefined
}

/**
 * The projector of a catalog model, fetched like the model. If that fails, a model that is downloaded already is served
 * without it.
 */
async function projectorOf(
  entry: CatalogEntry | undefined,
  options: FetchOptions,
  isHere: boolean,
) {
  if (entry?.projector === undefined) return undefined
  const { projector } = entry
  try {
    return await fetchCatalogModel({ ...entry, ...projector, name: projector.file }, options)
  } catch (error) {
    if (!isHere || options.signal.aborted) throw error
    options.onProgress({ kind: 'failed', source: projector.file, reason: (error as Error).message })
    return undefined
  }
}

type FindOptions = FetchOptions & Pick<Required<ResolveModelOptions>, 'catalog' | 'sources'>

async function find(spec: string, options: FindOptions): Promise<string> {
  const entry = findEntry(options.catalog, spec)
  if (entry) return await fetchCatalogModel(entry, options)
  if (spec.startsWith('hf:')) return await fetchFromHuggingFace(spec, options)
  const scheme = schemeOf(spec)
  if (scheme !== undefined) return await fetchFromSource(spec, scheme, options)
  return resolve(options.cwd, resolveModelSpec(spec, options.cwd))
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

/** @throws `model_unavailable` with the known schemes */
function sourceOf(spec: string, scheme: string, sources: ModelSources): ModelSource {
  const source = sources.get(scheme)
  if (source !== undefined) return source
  const schemes = ['hf', ...sources.keys()]
  const message = `${spec}: no plug-in provides the model source "${scheme}"; expected one of ${schemes.join(', ')}${suggestion(scheme, schemes)}`
  throw new CllmError('model_unavailable', message, { details: { spec, valid: schemes } })
}

/**
 * Fetches a model from a plug-in's source.
 *
 * @returns the absolute path of its file
 * @throws `model_unavailable`, or the source's error
 */
async function fetchFromSource(spec: string, scheme: string, options: FindOptions) {
  const { sources, signal, onProgress } = options
  const source = sourceOf(spec, scheme, sources)
  onProgress({ kind: 'start', model: spec, source: scheme })
  let path: unknown
  try {
    const fetched: unknown = await source.fetch(spec.slice(scheme.length + 1), {
      signal,
      onProgress: (receivedBytes, totalBytes = 0) =>
        onProgress({ kind: 'bytes', receivedBytes, totalBytes }),
    })
    path = Object(fetched).path
    if (typeof path !== 'string') throw new TypeError('fetch resolved to no { path } of a file')
  } catch (cause) {
    // A failure after an abort says nothing about the source.
    if (CllmError.isInstance(cause) || signal.aborted) throw cause
    const message = `${spec}: the model source "${scheme}": ${messageOf(cause)}`
    throw new CllmError('model_unavailable', message, { details: { spec }, cause })
  }
  onProgress({ kind: 'done', model: spec, path })
  return path
}

const isPath = (spec: string): boolean => /[\\/]|^[.~]|\.gguf$/i.test(spec)

function unknown(spec: string, catalog: readonly CatalogEntry[]): string {
  const names = catalog.map(({ name }) => name)
  return (
    `there is no model named "${spec}"${meantModel(spec, catalog) || '.'} ` +
    `A model is a name (${names.join(', ')}), the path of a .gguf file, or ` +
    `hf:owner/repository[:quantization]`
  )
}
