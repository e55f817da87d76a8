import { setImmediate as turnOfTheEventLoop } from 'node:timers/promises'
import { CllmError, type EncodedMedia, extendHash, hashTokens, type MediaEncoder } from '@cllm/core'

/**
 * Encodes images for a {@link FakeBackend}: any bytes but those of `bad` are one, of as many vectors as bytes, at most
 * 8. Each vector is one number: its place.
 */
export class FakeImages implements MediaEncoder {
  /** How many images were encoded so far. */
  encoded = 0
  readonly #vocabularySize: number

  constructor(vocabularySize: number) {
    this.#vocabularySize = vocabularySize
  }

  async encode(data: string): Promise<EncodedMedia> {
    await turnOfTheEventLoop()
    const bytes = [...Buffer.from(data, 'base64')]
    if (atob(data) === 'bad') {
      const details = { field: 'image' }
      throw new CllmError('invalid_media', 'image: expected an image, got bad', { details })
    }
    this.encoded++
    const length = Math.min(8, bytes.length)
    const vectors = Float32Array.from({ length }, (_, index) => index)
    const hash = hashTokens(0, bytes)
    const range = 2 ** 31 - 1 - this.#vocabularySize
    const tokens = [...vectors].map(
      (place) => this.#vocabularySize + (Math.abs(extendHash(hash, place)) % range),
    )
    return { tokens, spans: [{ start: 0, length, vectors }] }
  }
}
