import { type ChildProcess, fork } from 'node:child_process'
import { createHash } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import {
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
  messageOf,
  type StateFiles,
  type TokenId,
} from '@cllm/core'
import { LRUCache } from 'lru-cache'
import type { MediaLibraryOptions, MediaPiece } from '../native/ffi/media-library.js'
import { stateKey } from '../model/sample-file.js'
import { llamaVersion } from '../native/versions.js'
import { EncodingFiles } from './encoding-files.js'
import type { EncodeCall, EncoderMessage } from './encoder-process.js'
import { checkHead } from './file-head.js'
import { lowDetail } from './shrink-image.js'

/** How images and sounds are encoded. */
export interface FileEncoderOptions extends MediaLibraryOptions {
  /** Tokens of the model; ids from there on stand for vectors. */
  readonly vocabularySize: number
  /** The length of a vector. */
  readonly width: number
  /** Vectors that a forward pass can take at once. */
  readonly atOnce: number
  /** Bytes of encoded files that are kept. */
  readonly cacheBytes: number
}

/** A process that is not ready after this long is given up. */
const mostStartMs = 5 * 60_000

/** A process that has not ended for this long after it was killed is left to itself. */
const mostEndMs = 10_000

/** Ids are numbers of 32 bits with a sign. */
const lastId = 0x7fff_ffff

type EncoderAnswer = Extract<EncoderMessage, { readonly id: number }>

const encoderProcess = fileURLToPath(new URL('encoder-process.js', import.meta.url))

/**
 * Encodes images and sounds in a process of its own, which is started again when one ends it, and keeps what was encoded by the
 * files' content.
 */
export class FileEncoder implements MediaEncoder {
  readonly #known: LRUCache<string, EncodedMedia>
  #files: EncodingFiles | undefined
  #process: Promise<ChildProcess> | undefined
  #last = 0
  #isClosed = false
  #child: ChildProcess | undefined
  /** What the projector is for, since it is open. */
  types: readonly MediaType[] = []

  /** @param entry - the file of the process */
  constructor(
    private readonly options: FileEncoderOptions,
    private readonly logger: Logger,
    private readonly clock: Clock,
    private readonly entry: string = encoderProcess,
  ) {
    this.#known = new LRUCache({ maxSize: options.cacheBytes, sizeCalculation: bytesOf })
  }

  /** Of its process. */
  get pid(): number | undefined {
    return this.#child?.pid
  }

  /** @throws CllmError `invalid_configuration` that says why the encoder cannot be loaded */
  async open(): Promise<void> {
    await this.#start()
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
    const file = new Uint8Array(Buffer.from(data, 'base64'))
    const content = createHash('sha256').update(file).digest()
    // shrunk it is another image
    const hash =
      detail === undefined ? content : createHash('sha256').update(content).update(detail).digest()
    // A file that is known as an image is still refused as a sound.
    const name = `${type === 'image' ? '' : type}${hash.toString('base64')}`
    const key = scope === undefined ? undefined : (scope && JSON.stringify(scope)) + name
    const known = key === undefined ? undefined : await this.#find(key)
    if (known !== undefined) return known
    // Behind the look-ups: every turn of a chat brings its files again.
    const whole = checkHead(type, file)
    const size = detail === undefined ? whole : Math.min(whole, lowDetail ** 2 / 1e6)
    const { width } = this.options
    const id = ++this.#last
    const run = async (signal: AbortSignal): Promise<EncodedMedia> => {
      const pieces = await this.#encode({ id, type, file, width, ...defined({ detail }) }, signal)
      const encoded = this.#assembled(pieces, hash)
      if (key === undefined) return encoded
      this.#known.set(key, encoded)
      this.#files?.keep(key, encoded)
      return encoded
    }
    return { key: key ?? `only ${id}`, size, run }
  }

  keepIn(files: StateFiles): void {
    const { modelPath, mmprojPath, width, vocabularySize, atOnce } = this.options
    const more = { encodings: 1, llamaVersion, width, vocabularySize, atOnce }
    this.#files = new EncodingFiles(files, stateKey([modelPath, mmprojPath], more))
  }

  /** Ends the process, and with it what is being encoded: it rejects with `shutting_down`. */
  async dispose(): Promise<void> {
    this.#isClosed = true
    // One that is still being opened may take long.
    if (this.#process !== undefined && this.#child !== undefined) this.#kill(this.#child)
    await this.#files?.flush()
  }

  async #find(key: string): Promise<EncodedMedia | undefined> {
    const known = this.#known.get(key) ?? (await this.#files?.find(key))
    if (known !== undefined) this.#known.set(key, known)
    return known
  }

  /** Asks the process, which is started where there is none. What ended it may be the file, or somebody: it has a second try. */
  async #encode(call: EncodeCall, signal: AbortSignal): Promise<readonly MediaPiece[]> {
    for (let tries = 0; tries < 2; tries++) {
      const child = await this.#start().catch((error: unknown) => {
        // Somebody may have ended it before it was ready.
        if (tries > 0 || typeof this.#child?.signalCode !== 'string') throw error
      })
      signal.throwIfAborted()
      const answer = child && (await this.#ask(child, call, signal))
      if (answer?.type === 'encoded') return answer.pieces
      if (answer !== undefined) {
        const code = answer.isUnreadable ? 'invalid_media' : 'backend_failed'
        throw new CllmError(code, `${call.type}: ${answer.message}`)
      }
      // The next file is to find a process that is ready.
      void this.#start().catch(() => {})
      if (this.#isClosed) throw isClosing()
      signal.throwIfAborted()
    }
    const message = 'the encoder of images and sounds ended twice while it had this one'
    throw new CllmError('backend_failed', message)
  }

  /** The answer; undefined where the process has ended. The library cannot stop, so that it is ended by the signal. */
  async #ask(child: ChildProcess, call: EncodeCall, signal: AbortSignal) {
    return await new Promise<EncoderAnswer | undefined>((resolve) => {
      const kill = (): void => this.#kill(child)
      const end = (answer?: EncoderAnswer): void => {
        signal.removeEventListener('abort', kill)
        child.off('message', end).off('close', onClose)
        resolve(answer)
      }
      const onClose = (): void => end()
      signal.addEventListener('abort', kill)
      child.once('message', end).once('close', onClose)
      child.send(call)
    })
  }

  /** Ends a process. One that waits for a device cannot end: it counts as ended, so that others have their turns. */
  #kill(child: ChildProcess): void {
    child.kill('SIGKILL')
    const leave = this.clock.at(this.clock.now() + mostEndMs, () => {
      const message = 'the encoder of images and sounds cannot be killed: it is left to itself'
      this.logger.error({ pid: child.pid }, message)
      child.emit('close', null, 'SIGKILL')
    })
    child.once('close', leave)
  }

  /** Gives each vector an id, which only this file has in this place. */
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
      if (shape?.isWhole === true && count > this.options.atOnce) {
        const message = `this model reads an image in one pass of ${count} tokens: expected a batch_size of as many`
        throw new CllmError('unsupported', `${message}, got ${this.options.atOnce}`)
      }
      spans.push({ start: tokens.length, length: count, vectors, ...defined({ shape }) })
      for (let nth = 0; nth < count; nth++) {
        const word = hash.readUInt32LE(4 * (tokens.length % 8))
        const mixed = (word + Math.imul(tokens.length + 1, 0x9e37_79b1)) >>> 0
        tokens.push(vocabularySize + (mixed % (lastId - vocabularySize)))
      }
    }
    return { tokens, spans }
  }

  async #start(): Promise<ChildProcess> {
    if (this.#isClosed) throw isClosing()
    this.#process ??= this.#ready(this.#fork())
    const child = await this.#process
    if (this.#isClosed) throw isClosing()
    return child
  }

  #fork(): ChildProcess {
    try {
      return (this.#child = fork(this.entry, [JSON.stringify(this.options)], {
        serialization: 'advanced',
        stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      }))
    } catch (error) {
      throw this.#failed(messageOf(error))
    }
  }

  async #ready(child: ChildProcess): Promise<ChildProcess> {
    let log = ''
    child.stderr
      ?.setEncoding('utf8')
      .on('data', (text: string) => (log = (log + text).slice(-2000)))
    return await new Promise<ChildProcess>((resolve, reject) => {
      let problem = 'its process ended'
      let isReady = false
      const fail = (): void => {
        cancel()
        // The next one may have been started.
        if (this.#child === child) this.#process = undefined
        reject(this.#failed(problem))
      }
      // One that waits for a disk ends late, even when it is killed.
      const cancel = this.clock.at(this.clock.now() + mostStartMs, () => {
        problem = `its process is not ready after ${mostStartMs / 1000} s`
        child.kill('SIGKILL')
        fail()
      })
      child.on('message', (message: EncoderMessage) => {
        if (message.type === 'ready') {
          cancel()
          isReady = true
          this.types = message.types
          resolve(child)
        } else if (message.type === 'error') problem = message.message
      })
      child.on('error', ({ message }) => {
        problem = message
        // Without a process there may be no end of it.
        if (child.pid === undefined) fail()
      })
      child.once('close', (code, signal) => {
        fail()
        if (!isReady || this.#isClosed || this.#child !== child) return
        const about = { code, signal, log }
        this.logger.warn(about, 'the encoder of images and sounds ended: it starts again')
      })
    })
  }

  #failed(problem: string): CllmError {
    if (this.#isClosed) return isClosing()
    const why = `images and sounds cannot be encoded: ${problem}`
    // Where one was open, nothing is wrong with what it was given.
    if (this.types.length > 0) return new CllmError('backend_failed', why)
    return new CllmError('invalid_configuration', why, { details: { field: 'mmproj' } })
  }
}

const isClosing = (): CllmError =>
  new CllmError('shutting_down', 'the encoder of images and sounds is being closed')

const bytesOf = ({ tokens, spans }: EncodedMedia): number =>
  spans.reduce((sum, { vectors }) => sum + vectors.byteLength, 8 * tokens.length + 1)
