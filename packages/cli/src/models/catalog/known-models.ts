import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { CllmError } from '@cllm/core'
import { catalog, findEntry } from './catalog.js'
import { memoryOf, shapeOf } from './memory-of.js'
import { partsOf } from '../fetch/fetch-hugging-face.js'
import { isProjector, projectorBeside, projectorName } from '../model-files.js'
import { textTable, formatBytes } from '../../process/terminal.js'

/** What is known of a model without fetching it. */
export type KnownModel = Awaited<ReturnType<typeof knownModel>>

/**
 * Finds a model by a name of the catalog, or a file that is here.
 *
 * @returns without a path where it is not downloaded, and then without a shape where the catalog has none
 * @throws CllmError `model_unavailable` when it is neither
 */
export async function knownModel(spec: string, folder: string) {
  const entry = findEntry(catalog, spec)
  const path = await fileOf(spec, folder)
  if (path !== undefined) {
    // a server's process does without the rest of it
    const { readModelShape } = await import('@cllm/backend-llamacpp')
    return { name: spec, entry, path, shape: await readModelShape(path, projectorBeside(path)) }
  }
  if (entry !== undefined) return { name: spec, entry, path, shape: shapeOf(entry) }
  const message = `${spec} is no file and no name that \`cllm models\` or \`cllm list\` shows`
  throw new CllmError('model_unavailable', message)
}

async function fileOf(spec: string, folder: string): Promise<string | undefined> {
  const downloaded = await downloadedModel(folder, spec).catch(() => undefined)
  if (downloaded !== undefined) return downloaded.path
  const found = await stat(spec).catch(() => undefined)
  return found?.isFile() === true ? spec : undefined
}

/** A model in the cache folder. */
export type DownloadedModel = Awaited<ReturnType<typeof downloadedModels>>[number]

const laterPart = /-(?!00001-)\d{5}-of-\d{5}\.gguf$/

/**
 * The models in the cache folder; none where there is no such folder.
 *
 * @returns of each what `cllm run` and `cllm serve` take, the catalog's name or the file's path; the first one of its
 *   files, and all with its other parts and the projector that was fetched with it; the bytes of all, and when it was
 *   written, as ISO 8601
 */
export async function downloadedModels(folder: string, entries = catalog) {
  const all: string[] = await readdir(folder).catch(() => [])
  const models = all
    .filter((file) => /\.gguf$/i.test(file) && !isProjector(file) && !laterPart.test(file))
    .sort()
    .map(async (file) => {
      const path = join(folder, file)
      const own = [...partsOf(file), projectorName(file)].filter((name) => all.includes(name))
      const files = own.map((name) => join(folder, name))
      const [first, ...others] = await Promise.all(files.map(async (one) => await stat(one)))
      const bytes = others.reduce((sum, { size }) => sum + size, first!.size)
      const name = entries.find((entry) => entry.file === file)?.name ?? path
      return { name, bytes, modified: first!.mtime.toISOString(), path, files }
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
export function modelTable(models: Awaited<ReturnType<typeof listModels>>, available: number) {
  const rows = models.map((model) => {
    const { name, bytes, memoryBytes, licence, present, title, checked } = model
    const size = `${checked || present ? '' : '~'}${formatBytes(bytes)}`
    const fits = (memoryBytes ?? 0) <= available ? '✓' : '✗'
    const memory = memoryBytes === null ? '' : `${formatBytes(memoryBytes)} ${fits}`
    return [name, size, memory, licence, present ? 'yes' : 'no', title]
  })
  return textTable(['name', 'size', 'memory', 'licence', 'here', 'what'], rows)
}
