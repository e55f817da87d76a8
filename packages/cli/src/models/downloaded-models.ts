import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { CllmError } from '@cllm/core'
import { catalog, type CatalogEntry } from './catalog/catalog.js'

/** A model's file in the cache folder. */
export interface DownloadedModel {
  /** What `cllm run` and `cllm serve` take: the catalog's name, or the file's path. */
  readonly name: string
  readonly bytes: number
  /** When it was written, as ISO 8601. */
  readonly modified: string
  readonly path: string
}

/** The models in the cache folder; none where there is no such folder. */
export async function downloadedModels(
  folder: string,
  entries: readonly CatalogEntry[] = catalog,
): Promise<DownloadedModel[]> {
  const files = await readdir(folder).catch(() => [])
  const models = files
    .filter((file) => /\.gguf$/i.test(file))
    .sort()
    .map(async (file) => {
      const path = join(folder, file)
      const { size, mtime } = await stat(path)
      const name = entries.find((entry) => entry.file === file)?.name ?? path
      return { name, bytes: size, modified: mtime.toISOString(), path }
    })
  return await Promise.all(models)
}

/**
 * The downloaded model with this name, or this file's name or path.
 *
 * @throws CllmError `model_unavailable` with the names that there are
 */
export async function downloadedModel(folder: string, name: string): Promise<DownloadedModel> {
  const models = await downloadedModels(folder)
  const stem = name.replace(/\.gguf$/i, '')
  const found =
    models.find((model) => model.name === name || model.path === name) ??
    models.find(({ path }) => path === join(folder, `${stem}.gguf`))
  if (found !== undefined) return found
  const names = models.map((model) => model.name).join(', ')
  const message = `${name} is not downloaded: ${names === '' ? 'nothing is' : `there is ${names}`}`
  throw new CllmError('model_unavailable', message)
}
