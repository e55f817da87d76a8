import type { SamplingParams } from './sampling.js'
import type { StateFiles } from './states.js'
import type { TokenId, PromptMedia } from './tokenizer.js'

/** What a backend may tell of its model besides; another one may tell more. */
export interface ModelDetails {
  readonly layers?: number
  readonly hiddenSize?: number
  readonly attentionHeads?: number
  readonly keyValueHeads?: number
  readonly ropeTheta?: number
  /** Bytes of RAM that it takes. */
  readonly memoryBytes?: number
  /** Whether its file is mapped into memory. */
  readonly mmap?: boolean
  /** In Jinja. */
  readonly chatTemplate?: string
  readonly bosToken?: string
  readonly eosToken?: string
  readonly eosTokenId?: number
  /** Whether it thinks where a client does not say, as its operator has set. */
  readonly reasoning?: boolean
  /** How embeddings come of an input's tokens; `none`: one each, `rank`: it compares texts. */
  readonly pooling?: string
  readonly [more: string]: string | number | boolean | undefined
}

/** What is known of the loaded model. */
export interface ModelInfo {
  /** The name that clients see, such as `tinyllama-1.1b-chat`. */
  readonly id: string
  /** `llama`, `qwen3`, … */
  readonly architecture: string
  /** Count of weights. */
  readonly parameters: number
  readonly vocabularySize: number
  /** The context the model was trained with, in tokens. */
  readonly trainingContext: number
  /** Such as `Q4_K_M`. */
  readonly quantization: string
  /** Weights, in bytes. */
  readonly sizeBytes: number
  /** File the model was read from, where there is one. */
  readonly path?: string
  readonly details?: ModelDetails
  /** Whether prompts may have images. Default: false. */
  readonly images?: boolean
  /** Whether prompts may have sounds. Default: false. */
  readonly audio?: boolean
  /** The sampling that its file recommends, for what a request leaves out. Default: none. */
  readonly sampling?: Partial<SamplingParams>
}

/** An adapter (LoRA) to load beside a model: small matrices that are added to its weights. */
export interface AdapterSource {
  /** Letters, digits, `.`, `_` and `-`, at most 64 of them: clients see it as `model:name`. */
  readonly name: string
  /** A GGUF file that was made for this model. */
  readonly path: string
  /** How strongly it is applied where a request does not say; default 1. */
  readonly scale?: number
  /** Its number; default: the first that was never given. */
  readonly id?: number
}

/** An adapter that an engine has. */
export type AdapterInfo = Required<AdapterSource>

/** An adapter that a request is computed with. */
export interface AdapterChoice {
  /** Its name or number. */
  readonly adapter: string | number
  /** 0 is as if it were not named; default: the adapter's own. */
  readonly scale?: number
}

/** An adapter in a backend's memory. */
export interface LoadedAdapter {
  /** The same for the same content only: what was computed with one is never used for another. */
  readonly key: string
  /**
   * Gives its memory back. Called at most once, between steps and during no `embed`, when no sequence is
   * computed with it; those that are loaded at the end go with the backend.
   */
  dispose(): void
}

/** An adapter as a step applies it. */
export interface AppliedAdapter {
  readonly adapter: LoadedAdapter
  /** Any number but 0. */
  readonly scale: number
}

/** The adapters that a request is computed with. */
export interface RequestAdapters {
  /** Those with a scale other than 0, in an order of their own. */
  readonly applied: readonly AppliedAdapter[]
  /** The same for the same adapters with the same scales only; empty without any. */
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

/** How a model source is asked for a model. */
export interface ModelFetchOptions {
  /** Aborted when the model is no longer wanted. */
  readonly signal: AbortSignal
  /** Reports bytes received so far, and all of them where their number is known. */
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
   * What clients call the model where no `--model-id` is set. It is needed before the model is
   * fetched. Default: `spec` itself.
   */
  nameOf?(spec: string): string
}

/**
 * What a model reads in the place of an image or a sound, below an image. Ids from `vocabularySize` on are no tokens of the vocabulary: each stands for a
 * vector of the image, is the same whenever the same image is encoded for the same model, and differs between images, so
 * that whatever compares or keeps tokens (prefixes, states, routers) need not know of images.
 */
export interface EncodedMedia {
  readonly tokens: readonly TokenId[]
  /** The runs of such ids among them, rising. */
  readonly spans: readonly MediaSpan[]
}

/** A run of ids that stand for vectors. */
export interface MediaSpan {
  /** The index of the first one among the tokens. */
  readonly start: number
  readonly length: number
  /** The vectors one after the other: the backend's own, which the engine hands back in its batches. */
  readonly vectors: Float32Array
  /** Where they are not like tokens: {@link MediaShape}. Default: they are. */
  readonly shape?: MediaShape
}

/** What of a run of vectors differs from a run of tokens. */
export interface MediaShape {
  /** Vectors of the whole run. */
  readonly length: number
  /** How many of them are before this part of it. Default: 0. */
  readonly skipped?: number
  /** Positions that the run takes; default: one for each vector. */
  readonly positions?: number
  /** Columns of the grid in which each vector has a place (M-RoPE); default: there is no grid. */
  readonly columns?: number
  /** Whether the vectors see each other: the run is computed at once. Default: false. */
  readonly isWhole?: boolean
}

/** What is encoded. */
export type MediaFile = Pick<PromptMedia, 'type' | 'data' | 'detail'>

/** A file that is to be encoded when it is its turn. */
export interface EncodeJob {
  /** The same for the same file in the same scope: one result is for all of them. */
  readonly key: string
  /** What its cost grows with: millions of pixels, seconds of sound. */
  readonly size: number
  /**
   * Encodes it, while no other job of its encoder runs.
   *
   * @param signal - aborts when it took far longer than others, or long and nobody waits for it any more: an encoder that
   * can stop then rejects soon with the reason, and is ready for the next one
   * @throws CllmError as {@link MediaEncoder.prepare} does, `backend_failed` when it could not be encoded
   */
  run(signal: AbortSignal): Promise<EncodedMedia>
}

/** Turns images and sounds into what a model reads. One per backend, which computes it beside the steps. */
export interface MediaEncoder {
  /**
   * What it keeps of a file, or the work that this file is.
   *
   * @param scope - what was encoded is found in the same one alone; undefined: it is not kept
   * @throws CllmError `invalid_media` for what is no such file or exceeds a limit, `unsupported` for a type that the
   * model does not know
   */
  prepare(file: MediaFile, scope: string | undefined): Promise<EncodedMedia | EncodeJob>
  /** Files that keep what was encoded over restarts, from now on. */
  keepIn?(files: StateFiles): void
}
