import type { TokenId } from './tokenizer.js'

/**
 * What a model reads in an image's place. Ids from `vocabularySize` on are no tokens of the vocabulary: each stands for a
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
}

/** Turns images into what a model reads. One per backend, which computes it beside the steps. */
export interface MediaEncoder {
  /** Most tokens of one image's run that can be computed at all; default: any. */
  readonly mostTokens?: number
  /**
   * Encodes an image, or finds it among those that it keeps.
   * @param data - the file in base64
   * @throws CllmError `invalid_media` for what is no image or exceeds a limit, `backend_failed` when it could not be encoded
   */
  encode(data: string): Promise<EncodedMedia>
}
