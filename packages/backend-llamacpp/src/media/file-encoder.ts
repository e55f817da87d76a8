import { createHash } from 'node:crypto'
import {
  attempt,
  CllmError,
  type Clock,
  defined,
  type EncodedMedia,
  type EncodeJob,
  type Logger,
  type MediaEncoder,
  type MediaFile,
  type MediaSpan,
  type MediaType,
  type StateFiles,
  type TokenId,
} from '@cllm/core'
import { LRUCache } from 'lru-cache'
import type { MediaLibraryOptions, MediaPiece } from '../native/ffi/media-library.js'
import { stateKey } from '../model/sample-file.js'
import { llamaVersion } from '../native/native.js'
import { EncodingFiles } from './encoding-files.js'
import { EncoderSupervisor } from './encoder-supervisor.js'
import { checkHead } from './file-head.js'
import { lowDetail } from './picture.js'

/** Options of {@link FileEncoder}. */
interface FileEncoderOptions extends MediaLibraryOptions {
  /** The size of the model's vocabulary; ids from there on stand for vectors. */
  readonly vocabularySize: number
  /** The length of a vector. */
  readonly width: number
  /** The most vectors of a forward pass. */
  readonly atOnce: number
  /** The most bytes of cached encodings. */
  readonly cacheBytes: number
}

/** The largest id: ids are signed 32-bit numbers. */
const lastId = 0x7fff_ffff

/**
 * Encodes images and sounds in a separate process, which is started again when a file has ended it, and caches
 * encodings by the files' content.
 */
export class FileEncoder implements MediaEncoder {
  readonly #known: LRUCache<string, EncodedMedia>
  #files: EncodingFiles | undefined
  readonly #encoder: EncoderSupervisor
  #last = 0

  /** @param entry - the file of the process */
  constructor(
    private readonly options: FileEncoderOptions,
    logger: Logger,
    clock: Clock,
    entry?: string,
  ) {
    this.#known = new LRUCache({ maxSize: options.cacheBytes, sizeCalculation: bytesOf })
    this.#encoder = new EncoderSupervisor(options, logger, clock, entry)
  }

  get types(): readonly MediaType[] {
    return this.#encoder.types
  }

  /** The id of its process. */
  get pid(): number | undefined {
    return this.#encoder.pid
  }

  /** @throws CllmError `invalid_configuration` that says why the encoder cannot be loaded */
  async open(): Promise<void> {
    await this.#encoder.open()
  }

  async prepare(
    { type, data, detail: asked }: MediaFile,
    scope: string | undefined,
  ): Promise<EncodedMedia | EncodeJob> {
    if (!this.types.includes(type)) {
      const why = `this model's projector is for ${this.types.join()}, not ${type}`
      throw new CllmError('unsupported', why)
    }
    const detail = type === 'image' ? asked : undefined
    const file = Buffer.from(data, 'base64')
    const content = createHash('sha256').update(file).digest()
    // a scaled-down image has another encoding
    const hash =
      detail === undefined ? content : createHash('sha256').update(content).update(detail).digest()
    // With the type, so that a cached image is still refused as a sound.
    const name = `${type === 'image' ? '' : type}${hash.toString('base64')}`
    const key = scope === undefined ? undefined : (scope && JSON.stringify(scope)) + name
    const known = key === undefined ? undefined : await this.#find(key)
    if (known !== undefined) return this.#checked(known)
    // Only checked if it is not cached, as every turn of a chat has its files again.
    const whole = checkHead(type, file)
    const size = detail === undefined ? whole : Math.min(whole, lowDetail ** 2 / 1e6)
    const { width } = this.options
    const call = { type, file, width, ...defined({ detail }) }
    const run: EncodeJob['run'] = async (signal, onCounted) => {
      const pieces = await this.#encoder.encode(call, signal, (counted) => {
        // An image that is too large is told of as its answer.
        attempt(() => onCounted?.(this.#checked(this.#assembled(counted, hash))))
      })
      const encoded = this.#assembled(pieces, hash)
      if (key === undefined) return this.#checked(encoded)
      this.#known.set(key, encoded)
      this.#files?.keep(key, encoded)
      return this.#checked(encoded)
    }
    return { key: key ?? `only ${++this.#last}`, size, run }
  }

  keepIn(files: StateFiles): void {
    const { modelPath, mmprojPath, width, vocabularySize } = this.options
    const more = { encodings: 2, llamaVersion, width, vocabularySize }
    this.#files = new EncodingFiles(files, stateKey([modelPath, mmprojPath], more))
  }

  /** Ends the process; an encoding in progress rejects with `shutting_down`. */
  async dispose(): Promise<void> {
    this.#encoder.close()
    await this.#files?.flush()
  }

  async #find(key: string): Promise<EncodedMedia | undefined> {
    const known = this.#known.get(key) ?? (await this.#files?.find(key))
    if (known !== undefined) this.#known.set(key, known)
    return known
  }

  /** @throws CllmError `unsupported` for an image that has to be read as a whole and exceeds a pass */
  #checked(encoded: EncodedMedia): EncodedMedia {
    const { atOnce } = this.options
    const long = encoded.spans.find(({ shape, length }) => shape?.isWhole && length > atOnce)
    if (long === undefined) return encoded
    const message = `this model reads an image in one pass of ${long.length} tokens: expected a batch_size of as many`
    throw new CllmError('unsupported', `${message}, got ${atOnce}`)
  }

  /** Gives each vector an id that depends on the file and on its place in it, whether it is there yet or not. */
  #assembled(pieces: readonly MediaPiece[], hash: Buffer): EncodedMedia {
    const { vocabularySize } = this.options
    const tokens: TokenId[] = []
    const spans: MediaSpan[] = []
    for (const piece of pieces) {
      if ('tokens' in piece) {
        tokens.push(...piece.tokens)
        continue
      }
      const { count, vectors, shape } = piece
      spans.push({ start: tokens.length, length: count, vectors, ...defined({ shape }) })
      for (let nth = 0; nth < count; nth++) {
        const word = hash.readUInt32LE(4 * (tokens.length % 8))
        const mixed = (word + Math.imul(tokens.length + 1, 0x9e37_79b1)) >>> 0
        tokens.push(vocabularySize + (mixed % (lastId - vocabularySize)))
      }
    }
    return { tokens, spans }
  }
}

const bytesOf = ({ tokens, spans }: EncodedMedia): number =>
  spans.reduce((sum, { vectors }) => sum + vectors.byteLength, 8 * tokens.length + 1)
