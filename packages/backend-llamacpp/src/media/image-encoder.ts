import { type ChildProcess, fork } from 'node:child_process'
import { createHash } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import {
  CllmError,
  type EncodedMedia,
  type Logger,
  type MediaEncoder,
  type MediaSpan,
  type TokenId,
} from '@cllm/core'
import { LRUCache } from 'lru-cache'
import type { MediaLibraryOptions, MediaPiece } from '../native/ffi/media-library.js'
import type { EncodeCall, EncoderMessage } from './encoder-process.js'
import { checkImage } from './image-head.js'

/** How images are encoded. */
export interface ImageEncoderOptions extends MediaLibraryOptions {
  /** Tokens of the model; ids from there on stand for vectors. */
  readonly vocabularySize: number
  /** The length of a vector. */
  readonly width: number
  /** Bytes of encoded images that are kept. */
  readonly cacheBytes: number
}

/** Ids are numbers of 32 bits with a sign. */
const lastId = 0x7fff_ffff

const encoderProcess = fileURLToPath(new URL('encoder-process.js', import.meta.url))

interface Waiting {
  readonly call: EncodeCall
  readonly resolve: (pieces: readonly MediaPiece[]) => void
  readonly reject: (error: CllmError) => void
}

/**
 * Encodes images in a process of its own, which is started again when one ends it, and keeps what was encoded by the
 * files' content.
 */
export class ImageEncoder implements MediaEncoder {
  readonly #options: ImageEncoderOptions
  readonly #logger: Logger
  readonly #entry: string
  readonly #known: LRUCache<string, EncodedMedia>
  readonly #pending = new Map<string, Promise<EncodedMedia>>()
  readonly #waiting = new Map<number, Waiting>()
  #process: Promise<ChildProcess> | undefined
  #last = 0
  #isClosed = false

  /** @param entry - the file of the process */
  constructor(options: ImageEncoderOptions, logger: Logger, entry = encoderProcess) {
    this.#options = options
    this.#logger = logger
    this.#entry = entry
    this.#known = new LRUCache({ maxSize: options.cacheBytes, sizeCalculation: bytesOf })
  }

  /** @throws CllmError `invalid_configuration` that says why the encoder cannot be loaded */
  async open(): Promise<void> {
    await this.#start()
  }

  async encode(data: string): Promise<EncodedMedia> {
    const file = new Uint8Array(Buffer.from(data, 'base64'))
    checkImage(file)
    const hash = createHash('sha256').update(file).digest()
    const key = hash.toString('base64')
    const known = this.#known.get(key)
    if (known !== undefined) return known
    const pending = this.#pending.get(key) ?? this.#encode(key, hash, file)
    this.#pending.set(key, pending)
    return await pending
  }

  /** Ends the process, and with it what is being encoded. */
  async dispose(): Promise<void> {
    this.#isClosed = true
    const child = await this.#process?.catch(() => undefined)
    child?.kill('SIGKILL')
  }

  async #encode(key: string, hash: Buffer, file: Uint8Array<ArrayBuffer>): Promise<EncodedMedia> {
    try {
      const { width } = this.#options
      const child = await this.#start()
      const call: EncodeCall = { id: ++this.#last, file, width }
      const pieces = await new Promise<readonly MediaPiece[]>((resolve, reject) => {
        this.#waiting.set(call.id, { call, resolve, reject })
        child.send(call)
      })
      const encoded = this.#assembled(pieces, hash)
      this.#known.set(key, encoded)
      return encoded
    } finally {
      this.#pending.delete(key)
    }
  }

  /** Gives each vector an id, which only this image has in this place. */
  #assembled(pieces: readonly MediaPiece[], hash: Buffer): EncodedMedia {
    const { vocabularySize } = this.#options
    const tokens: TokenId[] = []
    const spans: MediaSpan[] = []
    for (const piece of pieces) {
      if ('tokens' in piece) {
        tokens.push(...piece.tokens)
        continue
      }
      const { count, vectors } = piece
      spans.push({ start: tokens.length, length: count, vectors })
      for (let nth = 0; nth < count; nth++) {
        const word = hash.readUInt32LE(4 * (tokens.length % 8))
        const mixed = (word + Math.imul(tokens.length + 1, 0x9e37_79b1)) >>> 0
        tokens.push(vocabularySize + (mixed % (lastId - vocabularySize)))
      }
    }
    return { tokens, spans }
  }

  #start(): Promise<ChildProcess> {
    this.#process ??= this.#spawn()
    return this.#process
  }

  async #spawn(): Promise<ChildProcess> {
    const { library, modelPath, mmprojPath, threads } = this.#options
    const options: MediaLibraryOptions = { library, modelPath, mmprojPath, threads }
    const child = fork(this.#entry, [JSON.stringify(options)], {
      serialization: 'advanced',
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    })
    let log = ''
    child.stderr
      ?.setEncoding('utf8')
      .on('data', (text: string) => (log = (log + text).slice(-2000)))
    return await new Promise<ChildProcess>((resolve, reject) => {
      let problem = 'its process ended'
      let isReady = false
      child.on('message', (message: EncoderMessage) => {
        if (message.type === 'ready') {
          isReady = true
          resolve(child)
        } else if (message.type === 'error') problem = message.message
        else this.#settle(message)
      })
      child.on('error', ({ message }) => (problem = message))
      child.once('close', (code, signal) => {
        this.#process = undefined
        const details = { field: 'mmproj' }
        reject(
          new CllmError('invalid_configuration', `images cannot be encoded: ${problem}`, {
            details,
          }),
        )
        if (!isReady || this.#isClosed) return
        this.#logger.warn({ code, signal, log }, 'the encoder of images ended: it starts again')
        this.#onEnded()
      })
    })
  }

  /** Images are encoded one after the other: the first has ended the process, the others go to the next one. */
  #onEnded(): void {
    const [first, ...others] = this.#waiting.values()
    if (first === undefined) return
    this.#waiting.delete(first.call.id)
    const message = 'the encoder of images ended while it had this one'
    first.reject(new CllmError('backend_failed', message))
    if (others.length === 0) return
    this.#start().then(
      (child) => {
        for (const { call } of others) child.send(call)
      },
      (error: unknown) => {
        for (const { call, reject } of others) {
          this.#waiting.delete(call.id)
          reject(CllmError.from(error))
        }
      },
    )
  }

  #settle(message: Extract<EncoderMessage, { readonly id: number }>): void {
    const waiting = this.#waiting.get(message.id)
    this.#waiting.delete(message.id)
    if (message.type === 'encoded') waiting?.resolve(message.pieces)
    else {
      const code = message.isUnreadable ? 'invalid_media' : 'backend_failed'
      waiting?.reject(new CllmError(code, `image: ${message.message}`))
    }
  }
}

function bytesOf({ tokens, spans }: EncodedMedia): number {
  return spans.reduce((sum, { vectors }) => sum + vectors.byteLength, 8 * tokens.length + 1)
}
