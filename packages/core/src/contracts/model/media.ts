import type { StateFiles } from '../engine/state-files.js'
import type { PromptMedia, TokenId } from './tokenizer.js'

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
