import type { EncodedMedia, MediaSpan, StateFile, StateFiles } from '@cllm/core'
import { LRUCache } from 'lru-cache'

/** The scope of a file: its image or sound, and the places of its vectors. */
interface Scope {
  readonly media: string
  readonly spans: readonly Omit<MediaSpan, 'vectors'>[]
}

/** Stores encoded images and sounds among the files of states: in the same folder, within the same limits. */
export class EncodingFiles {
  /** The known files, by the hash of what was encoded. The files' own limit removes the same ones, or more. */
  readonly #known: Promise<LRUCache<string, StateFile>>
  #writing: Promise<void> = Promise.resolve()

  /** @param key - identifies the encoder; files of other encoders are not read */
  constructor(
    private readonly files: StateFiles,
    private readonly key: Promise<string>,
  ) {
    this.#known = this.#list()
  }

  /** The stored encoding; undefined if there is none, or it cannot be read. */
  async find(hash: string): Promise<EncodedMedia | undefined> {
    const known = await this.#known
    const file = known.get(hash)
    if (file === undefined) return undefined
    const bytes = await this.files.read(file, (length) => new Uint8Array(length))
    if (bytes === undefined) {
      known.delete(hash)
      return undefined
    }
    void this.files.touch(file)
    const { spans } = JSON.parse(file.scope) as Scope
    const vectors = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4)
    const width = vectors.length / spans.reduce((sum, { length }) => sum + length, 0)
    let at = 0
    const filled = spans.map((span): MediaSpan => {
      const from = at
      at += span.length * width
      return { ...span, vectors: vectors.subarray(from, at) }
    })
    return { tokens: file.tokens, spans: filled }
  }

  /** Stores an encoding, in the background. */
  keep(hash: string, encoded: EncodedMedia): void {
    this.#writing = this.#writing.then(() => this.#write(hash, encoded)).catch(() => {})
  }

  /** Resolves when all encodings are written. */
  async flush(): Promise<void> {
    await this.#writing
  }

  async #write(hash: string, { tokens, spans }: EncodedMedia): Promise<void> {
    const known = await this.#known
    const bytes = spans.reduce((sum, { vectors }) => sum + vectors.byteLength, 0)
    const data = new Uint8Array(bytes)
    let at = 0
    for (const { vectors } of spans) {
      data.set(new Uint8Array(vectors.buffer, vectors.byteOffset, vectors.byteLength), at)
      at += vectors.byteLength
    }
    const placed = spans.map((span) => ({ ...span, vectors: undefined }))
    const scope = JSON.stringify({ media: hash, spans: placed } satisfies Scope)
    const head = { key: await this.key, scope, partial: false, tokens }
    const file = await this.files.write(head, data)
    if (file !== undefined) known.set(hash, file)
  }

  async #list(): Promise<LRUCache<string, StateFile>> {
    // the cache only accepts positive integers as a limit
    const maxSize = Math.max(1, Math.floor(Math.min(this.files.limitBytes, 2 ** 53 - 1)))
    const sizeCalculation = ({ bytes }: StateFile): number => Math.max(1, bytes)
    const known = new LRUCache<string, StateFile>({ maxSize, sizeCalculation })
    try {
      const files = await this.files.list(await this.key)
      for (const file of files) known.set((JSON.parse(file.scope) as Scope).media, file)
    } catch {
      // Unlisted files are encoded again.
    }
    return known
  }
}
