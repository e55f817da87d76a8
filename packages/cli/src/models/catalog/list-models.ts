import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { textTable } from '../../process/text-table.js'
import { catalog as defaultCatalog, type CatalogEntry } from './catalog.js'
import { formatBytes } from '../format-bytes.js'
import { memoryFor, shapeOf } from './memory-of.js'

/** A catalog model and whether it is downloaded. */
export interface ModelListing extends Pick<CatalogEntry, 'name' | 'title' | 'licence'> {
  /** Size of the file, or its size once downloaded, with its projector. */
  readonly bytes: number
  /** Memory for one slot of 4,096 tokens, or of its training context if that is less; null: unknown. */
  readonly memoryBytes: number | null
  /** Whether a download is checked against a known hash. */
  readonly checked: boolean
  readonly present: boolean
  /** Path of the file, whether or not it is downloaded. */
  readonly path: string
}

/** The models of the catalog, and whether each is in the cache folder. */
export async function listModels(
  cacheFolder: string,
  catalog: readonly CatalogEntry[] = defaultCatalog,
): Promise<ModelListing[]> {
  return await Promise.all(
    catalog.map(async (entry) => {
      const { name, title, licence, bytes, file, sources, projector } = entry
      const path = join(cacheFolder, file)
      const found = await stat(path).catch(() => undefined)
      return {
        name,
        title,
        licence,
        bytes: (found?.size ?? bytes) + (projector?.bytes ?? 0),
        memoryBytes: memoryOf(entry),
        checked: sources[0].sha256 !== undefined,
        present: found !== undefined,
        path,
      }
    }),
  )
}

function memoryOf(entry: CatalogEntry): number | null {
  const shape = shapeOf(entry)
  if (shape === undefined) return null
  return memoryFor(shape, 1, Math.min(usualContext, shape.trainingContext))
}

const usualContext = 4096

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
