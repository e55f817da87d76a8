import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { ModelShape } from '@cllm/backend-llamacpp'
import { partsOf } from '@cllm/backend-llamacpp/sample-file'
import { CllmError } from '@cllm/core'
import { catalog, type CatalogEntry, findEntry, meantModel } from './catalog.js'
import { memoryOf, shapeOf } from './memory-of.js'
import { isProjector, projectorBeside, projectorName } from '../model-files.js'
import { textTable, formatBytes } from '../../process/terminal.js'

/** What is known of a model without fetching it. */
export interface KnownModel {
  readonly name: string
  readonly entry: CatalogEntry | undefined
  /** Its file; undefined: it is not downloaded. */
  readonly path: string | undefined
  /** Undefined where it is not downloaded and the catalog has none. */
  readonly shape: ModelShape | undefined
}

/**
 * Finds a model by a name of the catalog, or a file that is here.
 *
 * @throws CllmError `model_unavailable` when it is neither
 */
export async function knownModel(spec: string, folder: string): Promise<KnownModel> {
  const entry = findEntry(catalog, spec)
  const path = await fileOf(spec, folder)
  if (path !== undefined) {
    // Imported here: a server's process needs nothing else of this package.
    const { readModelShape } = await import('@cllm/backend-llamacpp')
    return { name: spec, entry, path, shape: await readModelShape(path, projectorBeside(path)) }
  }
  if (entry !== undefined) return { name: spec, entry, path, shape: shapeOf(entry) }
  const message = `${spec} is no file and no name that \`cllm models\` or \`cllm list\` shows${meantModel(spec, catalog)}`
  throw new CllmError('model_unavailable', message)
}

async function fileOf(spec: string, folder: string): Promise<string | undefined> {
  const downloaded = await downloadedModel(folder, spec).catch(() => undefined)
  if (downloaded !== undefined) return downloaded.path
  const found = await stat(spec).catch(() => undefined)
  return found?.isFile() ? spec : undefined
}

/** A model in the cache folder. */
export type DownloadedModel = Awaited<ReturnType<typeof downloadedModels>>[number]

const laterPart = /-(?!00001-)\d{5}-of-\d{5}\.gguf$/

/** The models in the cache folder; none where there is no such folder. */
export async function downloadedModels(folder: string) {
  const all: string[] = await readdir(folder).catch(() => [])
  const models = all
    .filter((file) => /\.gguf$/i.test(file) && !isProjector(file) && !laterPart.test(file))
    .sort()
    .map(async (file) => {
      const path = join(folder, file)
      const own = [...partsOf(file), projectorName(file)].filter((name) => all.includes(name))
      const files = own.map((name) => join(folder, name))
      const found = await Promise.all(files.map(async (one) => await stat(one))).catch(() => [])
      const [first] = found
      // It cannot be read, such as a link to a disk that is not mounted.
      if (first === undefined) return []
      return [
        {
          /** What `cllm run` and `cllm serve` take: the catalog's name, or the file's path. */
          name: catalog.find((entry) => entry.file === file)?.name ?? path,
          /** Size of all its files. */
          bytes: found.reduce((sum, { size }) => sum + size, 0),
          /** When it was written, as ISO 8601. */
          modified: first.mtime.toISOString(),
          /** The first one of its files. */
          path,
          /** All its files: the parts, and the projector that was fetched with it. */
          files,
        },
      ]
    })
  return (await Promise.all(models)).flat()
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

/** A catalog model and whether it is downloaded. */
type ModelListing = Awaited<ReturnType<typeof listModels>>[number]

/** The models of the catalog, and whether each is in the cache folder. */
export async function listModels(cacheFolder: string) {
  const listed = catalog.map(async (entry) => {
    const { name, title, licence, bytes, file, sources, projector } = entry
    const path = join(cacheFolder, file)
    const found = await stat(path).catch(() => undefined)
    return {
      name,
      title,
      licence,
      /** Size of the file, or its size once downloaded, with its projector. */
      bytes: (found?.size ?? bytes) + (projector?.bytes ?? 0),
      /** Memory for one slot of 4,096 tokens, or of its training context if that is less; null: unknown. */
      memoryBytes: memoryOf(entry, 1) ?? null,
      /** Whether a download is checked against a known hash. */
      checked: sources[0].sha256 !== undefined,
      present: found !== undefined,
      /** Path of the file, whether or not it is downloaded. */
      path,
    }
  })
  return await Promise.all(listed)
}

/** The listing as a table for the terminal, on a machine with this many free bytes. */
export function modelTable(models: readonly ModelListing[], available: number): string {
  const rows = models.map((model) => {
    const { name, bytes, memoryBytes, licence, present, title, checked } = model
    const size = `${checked || present ? '' : '~'}${formatBytes(bytes)}`
    const fits = (memoryBytes ?? 0) <= available ? '✓' : '✗'
    const memory = memoryBytes === null ? '' : `${formatBytes(memoryBytes)} ${fits}`
    return [name, size, memory, licence, present ? 'yes' : 'no', title]
  })
  return textTable(['name', 'size', 'memory', 'licence', 'here', 'what'], rows)
}
