import { readFileSync } from 'node:fs'
import type { CatalogEntry } from './catalog-entry.js'

type Published = Omit<CatalogEntry, 'file' | 'sources'> & {
  /** `owner/repository/file` */
  readonly from: string
  /** Default: the file's own name. */
  readonly file?: string
  /** The file's SHA-256 as its publisher's page says it, and the commit that has the file. */
  readonly pin?: { readonly commit: string; readonly sha256: string }
}

const toEntry = ({ from, file, pin, ...entry }: Published): CatalogEntry => ({
  ...entry,
  file: file ?? from.slice(from.lastIndexOf('/') + 1),
  sources: [
    {
      kind: 'hugging-face',
      uri: `hf:${from}${pin === undefined ? '' : `#${pin.commit}`}`,
      bytes: entry.bytes,
      ...(pin === undefined ? {} : { sha256: pin.sha256 }),
    },
  ],
})

const file = new URL('../../../published-models.json', import.meta.url)

/**
 * Models by the names under which their files are published; sizes without a pin are approximate. A file
 * without a pinned hash is compared with the hash that its host gives.
 */
export const publishedModels: readonly CatalogEntry[] = (
  JSON.parse(readFileSync(file, 'utf8')) as readonly Published[]
).map(toEntry)
