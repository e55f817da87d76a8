import type { ModelShape } from '@cllm/backend-llamacpp'
import type { SamplingParams } from '@cllm/core'

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
  /** Of the file, or about. */
  readonly bytes: number
  /** In hexadecimal; absent: not known, so that only what the host says can be compared. */
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
}

/** A model with a short name. */
export interface CatalogEntry {
  readonly name: string
  /** What Ollama's library calls it, for those who come from there. */
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
  /** What its authors recommend, or was measured here; a request's own values go first. */
  readonly sampling?: Partial<SamplingParams>
  /** What a server says of it at its start. Default: nothing. */
  readonly advice?: string
  /** For those who change the catalog. */
  readonly notes?: string
  /** Tried in this order. */
  readonly sources: readonly [CatalogSource, ...CatalogSource[]]
}
