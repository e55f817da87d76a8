import type { EncodedMedia, MediaSpan, StateFiles, StateHead } from '@cllm/core'

/** What is stored before the vectors, as JSON in as many bytes as the number before it says. */
interface Head {
  readonly tokens: EncodedMedia['tokens']
  readonly spans: readonly Omit<MediaSpan, 'vectors'>[]
}

const numberBytes = 4

/**
 * Stores encoded images and sounds among the files of states: in the same folder, within the same limits. A file is named
 * for what was encoded, so that an engine finds what another one has encoded meanwhile.
 */
export class EncodingFiles {
  #writing: Promise<void> = Promise.resolve()

  /** @param key - identifies the encoder; files of other encoders are not read */
  constructor(
    private readonly files: StateFiles,
    private readonly key: Promise<string>,
  ) {
    // Without a key, as when the model's file is gone, nothing is found or stored.
    key.catch(() => {})
  }

  /** The stored encoding, from whichever process; undefined if there is none, or it cannot be read. */
  async find(hash: string): Promise<EncodedMedia | undefined> {
    try {
      const found = await this.files.find?.(await this.#headOf(hash))
      if (found === undefined) return undefined
      void this.files.touch(found)
      return encodedIn(found.data)
    } catch {
      return undefined
    }
  }

  /** Stores an encoding, in the background. */
  keep(hash: string, encoded: EncodedMedia): void {
    const write = async () =>
      void (await this.files.write(await this.#headOf(hash), dataOf(encoded)))
    this.#writing = this.#writing.then(write).catch(() => {})
  }

  /** Resolves when all encodings are written. */
  async flush(): Promise<void> {
    await this.#writing
  }

  async #headOf(hash: string): Promise<StateHead> {
    return { key: await this.key, scope: hash, partial: false, tokens: [] }
  }
}

function dataOf({ tokens, spans }: EncodedMedia): Uint8Array {
  const head: Head = { tokens, spans: spans.map((span) => ({ ...span, vectors: undefined })) }
  const text = JSON.stringify(head)
  // Spaces, so that numbers of four bytes follow.
  const json = Buffer.from(text.padEnd(numberBytes * Math.ceil(text.length / numberBytes)))
  const parts = spans.map(
    ({ vectors: { buffer, byteOffset, byteLength } }) =>
      new Uint8Array(buffer, byteOffset, byteLength),
  )
  const length = Buffer.from(Uint32Array.of(json.length).buffer)
  return Buffer.concat([length, json, ...parts])
}

function encodedIn({ buffer, byteOffset, byteLength }: Uint8Array): EncodedMedia {
  const [length = 0] = new Uint32Array(buffer, byteOffset, 1)
  const begin = byteOffset + numberBytes
  const json = Buffer.from(buffer, begin, length).toString()
  const { tokens, spans } = JSON.parse(json) as Head
  const rest = byteLength - numberBytes - length
  const vectors = new Float32Array(buffer, begin + length, rest / numberBytes)
  const width = vectors.length / spans.reduce((sum, span) => sum + span.length, 0)
  let at = 0
  const filled = spans.map((span): MediaSpan => {
    const from = at
    at += span.length * width
    return { ...span, vectors: vectors.subarray(from, at) }
  })
  return { tokens, spans: filled }
}
