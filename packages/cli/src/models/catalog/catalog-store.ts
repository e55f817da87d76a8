import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { CllmError } from '@cllm/core'
import type { ModelPool } from '@cllm/host'
import type { ModelMemory, ModelStore, PullProgress } from '@cllm/http-koa'
import type { CommandIo } from '../../commands/command.js'
import type { LoadedConfig } from '../../config/load-config.js'
import { modelsFolder } from '../cache-folder.js'
import { catalog, type CatalogEntry, findEntry } from './catalog.js'
import type { FetchProgress } from '../fetch/fetch-once.js'
import { exists, projectorName } from '../model-files.js'
import { resolveModel } from '../resolve-model.js'
import { availableMemory } from '../../engine/available.js'
import { BlobFiles, withoutPath } from './blob-files.js'
import { knownModel, listModels } from './known-models.js'
import { memoryFor, shapeOf } from './memory-of.js'
import type { LoadableModels } from '../served/loadable-models.js'

type PullOptions = Parameters<ModelStore['pull']>[1]

/**
 * Gives a server's clients access to the catalog and the cache folder by model names only, never by
 * paths or addresses.
 */
export class CatalogStore implements ModelStore {
  readonly blobs: BlobFiles
  readonly #folder: string

  constructor(
    private readonly pool: ModelPool,
    private readonly sources: LoadableModels,
    private readonly loaded: LoadedConfig,
    private readonly io: CommandIo,
  ) {
    this.#folder = modelsFolder(loaded, io.env)
    this.blobs = new BlobFiles(join(this.#folder, 'blobs'), (name, path) => {
      const model = sources.of(name, { spec: path })
      pool.add({
        ...model,
        load: async (context) =>
          await model.load(context).catch((cause: unknown) => {
            const { code, message } = CllmError.from(cause)
            throw new CllmError(code, withoutPath(message, path), { cause })
          }),
      })
    })
  }

  /** Throws for an unknown name at once, before a streamed answer about the fetch begins. */
  pull(name: string, options: PullOptions): Promise<void> {
    return this.#fetch(name, this.#specOf(name), options)
  }

  async memory(name: string, slots: number, contextSize: number): Promise<ModelMemory> {
    const { shape } = await knownModel(this.#specOf(name), this.#folder)
    if (shape === undefined) {
      const message = `the memory of model '${name}' is not known before it is fetched`
      throw new CllmError('unsupported', message)
    }
    const total = memoryFor(shape, slots, contextSize)
    return { weights: shape.sizeBytes, total, available: availableMemory() }
  }

  async catalog(slots: number, contextSize: number) {
    const listed = await listModels(this.#folder)
    const models = listed.map(({ name, title, bytes, present }) => {
      const entry = findEntry(catalog, name)
      const shape = entry && shapeOf(entry)
      return { name, title, bytes, present, total: shape && memoryFor(shape, slots, contextSize) }
    })
    return { available: availableMemory(), models }
  }

  async remove(name: string, options?: { readonly keepsFile?: boolean }): Promise<void> {
    if (this.blobs.isOf(name)) {
      this.sources.specs.delete(name)
      await this.pool.remove(name)
      return await this.blobs.remove(name, options)
    }
    const entry = entryOf(this.#specOf(name))
    if (entry === undefined) {
      const message = `model '${name}' is not in cLLM's own cache: its file stays`
      throw new CllmError('unsupported', message)
    }
    const file = join(this.#folder, entry.file)
    if (!(await exists(file))) throw this.#notFound(name)
    for (const served of this.pool.list()) {
      const spec = this.sources.specs.get(served) ?? ''
      const path = this.pool.status(served).info?.model.path
      if (entryOf(spec)?.name === entry.name || path === file) await this.pool.unload(served)
    }
    await rm(file)
    await rm(join(this.#folder, projectorName(file)), { force: true })
  }

  async #fetch(name: string, spec: string, { signal, onProgress }: PullOptions) {
    await resolveModel(spec, {
      ...this.sources.findOptions(this.loaded.config.models.served[name] ?? {}),
      env: this.io.env,
      signal: AbortSignal.any([signal, this.io.signal]),
      onProgress: describing(entryOf(spec), onProgress),
      cacheFolder: this.#folder,
    })
    if (!this.pool.list().includes(name)) this.pool.add(this.sources.of(name, { spec }))
  }

  /** The spec by which a served model or a catalog model is fetched. */
  #specOf(name: string): string {
    const spec = this.sources.specs.get(name) ?? entryOf(name)?.name
    if (spec !== undefined) return spec
    throw this.#notFound(name)
  }

  #notFound(name: string): CllmError {
    const names = [...new Set([...this.sources.specs.keys(), ...catalog.map((one) => one.name)])]
    const message = `model '${name.slice(0, 100)}' not found: expected one of ${names.join(', ')}`
    return new CllmError('model_not_found', message, { details: { field: 'model' } })
  }
}

const entryOf = (spec: string): CatalogEntry | undefined => findEntry(catalog, spec)

/** Reports a fetch with Ollama's status texts, and its bytes at most a hundred times. */
function describing(entry: CatalogEntry | undefined, tell: (progress: PullProgress) => void) {
  const sha256 = entry?.sources[0].sha256
  const digest = sha256 === undefined ? {} : { digest: `sha256:${sha256}` }
  const status = `pulling ${sha256?.slice(0, 12) ?? 'the file'}`
  let told = -1
  return (progress: FetchProgress): void => {
    if (progress.kind === 'bytes') {
      const { receivedBytes: completed, totalBytes: total } = progress
      const percent = Math.floor((completed / Math.max(1, total)) * 100)
      if (percent <= told) return
      told = percent
      tell({ status, ...digest, total, completed: Math.min(completed, total) })
    } else if (progress.kind === 'start') {
      told = -1
      tell({ status: `pulling from ${progress.source}` })
    } else if (progress.kind === 'checking') tell({ status: 'verifying sha256 digest' })
    else if (progress.kind === 'unchecked') tell({ status: 'no digest is known: not verified' })
    else if (progress.kind === 'failed') tell({ status: `failed from ${progress.source}` })
    else if (progress.kind === 'waiting') tell({ status: 'waiting for another process' })
    else tell({ status: 'writing manifest' })
  }
}
