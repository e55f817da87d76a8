import { setImmediate as turnOfTheEventLoop } from 'node:timers/promises'
import type { Clock, EncodedMedia, EncodeJob, MediaEncoder, MediaFile } from '@cllm/core'
import { CllmError, extendHash, hashTokens, pause } from '@cllm/core'

/**
 * Encodes images and sounds for a {@link FakeBackend}. Any bytes are one, but not `bad` and not none at all; `broken` is
 * one that cannot be encoded. It has as many vectors as bytes, at most 8, and 2 at low detail. Each vector is one
 * number: its place.
 */
export class FakeImages implements MediaEncoder {
  /** What was encoded so far. */
  readonly encoded: string[] = []
  readonly #kept = new Map<string, EncodedMedia>()
  /** How long each one takes. */
  encodeMs = 0
  /** How long one that is stopped takes to end. */
  stopMs = 0

  /** @param types - what the model knows */
  constructor(
    private readonly vocabularySize: number,
    private readonly types: readonly string[] = ['image'],
    private readonly clock?: Clock,
  ) {}

  async prepare(
    { type, data, detail }: MediaFile,
    scope: string | undefined,
  ): Promise<EncodedMedia | EncodeJob> {
    if (!this.types.includes(type)) throw new CllmError('unsupported', `no encoder for ${type}`)
    const bytes = [...Buffer.from(data, 'base64')]
    if (data === '' || atob(data) === 'bad') {
      const details = { field: 'image' }
      throw new CllmError('invalid_media', 'image: expected an image, got bad', { details })
    }
    const key = `${scope} ${data} ${detail}`
    const length = Math.min(detail === 'low' ? 2 : 8, bytes.length)
    const run: EncodeJob['run'] = async (signal, onCounted) => {
      const encoded = this.#encoded(bytes, length)
      const text = String.fromCodePoint(...bytes)
      const spans = [{ start: 0, length, vectors: new Float32Array() }]
      if (text !== 'unreadable') onCounted?.({ ...encoded, spans })
      await this.#encode(text, signal)
      if (scope !== undefined) this.#kept.set(key, encoded)
      return encoded
    }
    return this.#kept.get(key) ?? { key, size: bytes.length, run }
  }

  async #encode(text: string, signal: AbortSignal): Promise<void> {
    this.encoded.push(text)
    if (this.clock !== undefined && this.encodeMs > 0) {
      await pause(this.clock, this.encodeMs, signal)
      if (signal.aborted) await pause(this.clock, this.stopMs)
      signal.throwIfAborted()
    } else await turnOfTheEventLoop()
    if (text === 'unreadable') throw new CllmError('invalid_media', 'image: it cannot be decoded')
    if (text === 'broken') throw new CllmError('backend_failed', 'image: the encoder ended')
  }

  #encoded(bytes: readonly number[], length: number): EncodedMedia {
    const vectors = Float32Array.from({ length }, (_, index) => index)
    const hash = hashTokens(0, bytes)
    const range = 2 ** 31 - 1 - this.vocabularySize
    const tokens = [...vectors].map(
      (place) => this.vocabularySize + (Math.abs(extendHash(hash, place)) % range),
    )
    return { tokens, spans: [{ start: 0, length, vectors }] }
  }
}
