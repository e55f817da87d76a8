import type { SamplingParams } from './sampling.js'
import type { StateFiles } from './states.js'
import type { TokenId, PromptMedia } from './tokenizer.js'

/** Further details of a model, as far as its backend reports them; backends may add their own. */
export interface ModelDetails {
  readonly layers?: number
  readonly hiddenSize?: number
  readonly attentionHeads?: number
  readonly keyValueHeads?: number
  readonly ropeTheta?: number
  /** Bytes of RAM that the model takes. */
  readonly memoryBytes?: number
  /** Whether its file is mapped into memory. */
  readonly mmap?: boolean
  /** The Jinja template. */
  readonly chatTemplate?: string
  readonly bosToken?: string
  readonly eosToken?: string
  readonly eosTokenId?: number
  /** Whether it thinks by default, if the operator has set that. */
  readonly reasoning?: boolean
  /** How embeddings are pooled; `none`: one vector for each token, `rank`: the model compares texts. */
  readonly pooling?: string
  readonly [more: string]: string | number | boolean | undefined
}

/** The loaded model. */
export interface ModelInfo {
  /** The name that clients see, such as `tinyllama-1.1b-chat`. */
  readonly id: string
  /** `llama`, `qwen3`, … */
  readonly architecture: string
  /** The number of weights. */
  readonly parameters: number
  readonly vocabularySize: number
  /** The context the model was trained with, in tokens. */
  readonly trainingContext: number
  /** Such as `Q4_K_M`. */
  readonly quantization: string
  /** The size of the weights in bytes. */
  readonly sizeBytes: number
  /** File the model was read from, where there is one. */
  readonly path?: string
  readonly details?: ModelDetails
  /** Whether prompts may have images. Default: false. */
  readonly images?: boolean
  /** Whether prompts may have sounds. Default: false. */
  readonly audio?: boolean
  /** The sampling parameters that its file recommends, for requests without their own. Default: none. */
  readonly sampling?: Partial<SamplingParams>
}

/** An adapter (LoRA) to load beside a model: small matrices that are added to its weights. */
export interface AdapterSource {
  /** Letters, digits, `.`, `_` and `-`, at most 64 of them: clients see it as `model:name`. */
  readonly name: string
  /** A GGUF file that was made for this model. */
  readonly path: string
  /** How strongly it is applied if a request does not say; default 1. */
  readonly scale?: number
  /** Its number; default: the first one that was never used. */
  readonly id?: number
}

/** A loaded adapter. */
export type AdapterInfo = Required<AdapterSource>

/** An adapter as a request names it. */
export interface AdapterChoice {
  /** Its name or number. */
  readonly adapter: string | number
  /** How strongly it is applied; 0: not at all. Default: the adapter's own scale. */
  readonly scale?: number
}

/** An adapter in a backend's memory. */
export interface LoadedAdapter {
  /** Equal only for equal content: tokens computed with one key are never reused with another. */
  readonly key: string
  /**
   * Frees its memory. Called at most once, between steps and not during `embed`, when no sequence uses it. Adapters that
   * are still loaded at the end are freed with the backend.
   */
  dispose(): void
}

/** An adapter as a step applies it. */
export interface AppliedAdapter {
  readonly adapter: LoadedAdapter
  /** Any number but 0. */
  readonly scale: number
}

/** The adapters of a request. */
export interface RequestAdapters {
  /** The adapters with a scale other than 0, ordered by key. */
  readonly applied: readonly AppliedAdapter[]
  /** Equal only for the same adapters with the same scales; empty without adapters. */
  readonly key: string
}

/** Loads adapters. */
export interface BackendAdapters {
  /**
   * Reads an adapter. Called between steps; no `embed` is made meanwhile.
   *
   * @throws CllmError `model_unavailable` for a file that cannot be read, `model_invalid` for one that is
   *   no adapter of this model; both name the file and what was expected
   */
  load(path: string): Promise<LoadedAdapter>
}

/** Options of {@link ModelSource.fetch}. */
export interface ModelFetchOptions {
  /** Aborted when the model is no longer wanted. */
  readonly signal: AbortSignal
  /** Reports the bytes received so far, and the total if it is known. */
  readonly onProgress: (receivedBytes: number, totalBytes?: number) => void
}

/** The file of a model. */
export interface FetchedModel {
  /** Absolute path of the file that the backend opens. */
  readonly path: string
}

/**
 * A place that models come from. A plug-in provides it under a scheme,
 * `host.provide(MODEL_SOURCE, 'scheme', () => source)`; the spec `scheme:rest` then goes to it.
 */
export interface ModelSource {
  /**
   * Fetches a model, or finds it in the source's own cache.
   *
   * @param spec the part of the model's spec after `scheme:`
   */
  fetch(spec: string, options: ModelFetchOptions): Promise<FetchedModel>
  /**
   * The model's name for clients if no `--model-id` is set. It is needed before the model is fetched. Default: `spec`
   * itself.
   */
  nameOf?(spec: string): string
}

/**
 * What a model reads in place of an image (or a sound). Ids from `vocabularySize` on are not in the vocabulary: each stands
 * for a vector of the image. They are the same whenever the same image is encoded for the same model, and differ between
 * images, so that code which compares or stores tokens (prefixes, states, routers) need not know about images.
 */
export interface EncodedMedia {
  readonly tokens: readonly TokenId[]
  /** The runs of such ids among the tokens, in rising order. */
  readonly spans: readonly MediaSpan[]
}

/** A run of ids that stand for vectors. */
export interface MediaSpan {
  /** The index of the first one among the tokens. */
  readonly start: number
  readonly length: number
  /** The vectors, one after the other, as the engine passes them back to the backend in batches. */
  readonly vectors: Float32Array
  /** How the run differs from a run of tokens. Default: not at all. */
  readonly shape?: MediaShape
}

/** How a run of vectors differs from a run of tokens. */
export interface MediaShape {
  /** The number of vectors in the whole run. */
  readonly length: number
  /** The number of vectors before this part of the run. Default: 0. */
  readonly skipped?: number
  /** Positions that the run takes; default: one for each vector. */
  readonly positions?: number
  /** Columns of the grid in which each vector has a place (M-RoPE); default: there is no grid. */
  readonly columns?: number
  /** Whether attention among the vectors is not causal, so that the run must be computed at once. Default: false. */
  readonly isWhole?: boolean
}

/** A file to encode. */
export type MediaFile = Pick<PromptMedia, 'type' | 'data' | 'detail'>

/** A file that waits to be encoded. */
export interface EncodeJob {
  /** Equal for the same file in the same scope: these share one result. */
  readonly key: string
  /** The size on which its cost depends: millions of pixels, or seconds of sound. */
  readonly size: number
  /**
   * Encodes the file. No two jobs of an encoder run at once.
   *
   * @param signal - aborts when it takes far longer than predicted, or nobody waits for it any more; an encoder that can
   *   stop then rejects soon with the reason, and is ready for the next file
   * @param onCounted - called as soon as the tokens are known, with spans whose vectors are empty: the text before them is
   *   then computed during the encoding. From then on the file counts as readable. Need not be called.
   * @throws CllmError the errors of {@link MediaEncoder.prepare}, `backend_failed` when it could not be encoded
   */
  run(signal: AbortSignal, onCounted?: (counted: EncodedMedia) => void): Promise<EncodedMedia>
}

/** Encodes images and sounds for a model, beside the steps. One per backend. */
export interface MediaEncoder {
  /**
   * The cached encoding of a file, or a job that encodes it.
   *
   * @param scope - cached encodings are only found within the same scope; undefined: not cached
   * @throws CllmError `invalid_media` for a file that is unreadable or exceeds a limit, `unsupported` for a type that the
   *   model does not take
   */
  prepare(file: MediaFile, scope: string | undefined): Promise<EncodedMedia | EncodeJob>
  /** From now on, also caches encodings in these files, which outlive the process. */
  keepIn?(files: StateFiles): void
}

/** Computes the embedding of an input with images or sounds, as `Backend.embed` does that of a text. */
export type EmbedMixed = (
  tokens: readonly TokenId[],
  media: readonly MediaSpan[],
  adapters?: readonly AppliedAdapter[],
) => Promise<readonly number[]>
