import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import Table from 'cli-table3'
import { catalog as defaultCatalog, DEFAULT_MODEL, type CatalogEntry } from './catalog.js'
import { formatBytes } from '../format-bytes.js'

/** A catalog model and whether it is downloaded. */
export interface ModelListing {
  readonly name: string
  readonly title: string
  readonly licence: string
  /** Size of the file, or its size once downloaded. */
  readonly bytes: number
  readonly present: boolean
  /** Path of the file, whether or not it is downloaded. */
  readonly path: string
  /** True for the default model to serve. */
  readonly default: boolean
}

/** The models of the catalog, and whether each is in the cache folder. */
export async function listModels(
  cacheFolder: string,
  catalog: readonly CatalogEntry[] = defaultCatalog,
): Promise<ModelListing[]> {
  return await Promise.all(
    catalog.map(async ({ name, title, licence, bytes, file }) => {
      const path = join(cacheFolder, file)
      const found = await stat(path).catch(() => undefined)
      return {
        name,
        title,
        licence,
        bytes: found?.size ?? bytes,
        present: found !== undefined,
        path,
        default: name === DEFAULT_MODEL,
      }
    }),
  )
}

/** The listing as a table for the terminal. */
export function modelTable(models: readonly ModelListing[]): string {
  const table = new Table({
    head: ['name', 'size', 'licence', 'here', 'what'],
    style: { head: [], border: [], compact: true },
  })
  for (const { name, bytes, licence, present, title, default: isDefault } of models) {
    const label = isDefault ? `${name} (default)` : name
    table.push([label, formatBytes(bytes), licence, present ? 'yes' : 'no', title])
  }
  return `${table.toString()}\n`
}
