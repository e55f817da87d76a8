import { type ChildProcess, fork, type StdioOptions } from 'node:child_process'
import { closeSync, ftruncateSync, mkdtempSync, openSync, readSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { attempt, CllmError, type Clock, type Logger, type MediaType, messageOf } from '@cllm/core'
import type { MediaLibraryOptions, MediaPiece } from '../native/ffi/media-library.js'
import type { EncodeCall, EncoderMessage, EncoderOptions } from './encoder-process.js'

/** A process that is not ready after this long is given up. */
const mostStartMs = 5 * 60_000

/** A process that has not ended for this long after it was killed is left to itself. */
const mostEndMs = 10_000

/** Files of this folder are in memory; Linux alone has it. */
const memoryFolder = '/dev/shm'

/** The number of the file of vectors in the process, behind those of its messages. */
const vectorFile = 4

type EncoderAnswer = Extract<EncoderMessage, { readonly type: 'encoded' | 'failed' }>

const encoderProcess = fileURLToPath(new URL('encoder-process.js', import.meta.url))

/** A process that encodes. */
type Encoder = ChildProcess & {
  /** Fires when it has ended, or counts as ended. */
  readonly ended: AbortController
  /** What vectors come in; undefined: they come with the messages, or it has ended. */
  file: number | undefined
}

/** Has one process that encodes, and starts the next when a file ends it. */
export class EncoderSupervisor {
  /** The process that is asked, once it is ready; undefined: the next question starts one. */
  #ready: Promise<Encoder> | undefined
  /** The process that was started last, ready or not, and also when it has ended. */
  #child: Encoder | undefined
  #isClosed = false
  /** What the projector is for, since it is open. */
  types: readonly MediaType[] = []

  /** @param entry - the file of the process */
  constructor(
    private readonly options: MediaLibraryOptions,
    private readonly logger: Logger,
    private readonly clock: Clock,
    private readonly entry: string = encoderProcess,
  ) {}

  get pid(): number | undefined {
    return this.#child?.pid
  }

  /** @throws CllmError `invalid_configuration` that says why the encoder cannot be loaded */
  async open(): Promise<void> {
    await this.#start()
  }

  /** Ends the process, and with it what is being encoded: it rejects with `shutting_down`. */
  close(): void {
    this.#isClosed = true
    // One that is still being opened may take long.
    if (this.#ready !== undefined && this.#child !== undefined) this.#kill(this.#child)
  }

  /** Asks the process, which is started where there is none. What ended it may be the file, or somebody: it has a second try. */
  async encode(call: EncodeCall, signal: AbortSignal): Promise<readonly MediaPiece[]> {
    for (let tries = 0; tries < 2; tries++) {
      const child = await this.#start().catch((error: unknown) => {
        // Somebody may have ended it before it was ready.
        if (tries > 0 || typeof this.#child?.signalCode !== 'string') throw error
      })
      signal.throwIfAborted()
      const answer = child && (await this.#ask(child, call, signal))
      if (child && answer) return piecesOf(answer, call, child.file)
      // The next file is to find a process that is ready.
      void this.#start().catch(() => {})
      if (this.#isClosed) throw isClosing()
      signal.throwIfAborted()
    }
    const message = 'the encoder of images and sounds ended twice while it had this one'
    throw new CllmError('backend_failed', message)
  }

  /** The answer; undefined where the process has ended. The library cannot stop, so that it is ended by the signal. */
  async #ask(child: Encoder, call: EncodeCall, signal: AbortSignal) {
    return await new Promise<EncoderAnswer | undefined>((resolve) => {
      const kill = (): void => this.#kill(child)
      const end = (answer?: EncoderAnswer): void => {
        signal.removeEventListener('abort', kill)
        child.ended.signal.removeEventListener('abort', onEnd)
        child.off('message', end)
        resolve(answer)
      }
      const onEnd = (): void => end()
      signal.addEventListener('abort', kill)
      child.ended.signal.addEventListener('abort', onEnd)
      child.once('message', end)
      child.send(call)
    })
  }

  /** Ends a process. One that waits for a device cannot end: it counts as ended, so that others have their turns. */
  #kill(child: Encoder): void {
    child.kill('SIGKILL')
    const leave = this.clock.at(this.clock.now() + mostEndMs, () => {
      const message = 'the encoder of images and sounds cannot be killed: it is left to itself'
      this.logger.error({ pid: child.pid }, message)
      child.ended.abort()
    })
    child.ended.signal.addEventListener('abort', leave, { once: true })
  }

  async #start(): Promise<Encoder> {
    if (this.#isClosed) throw isClosing()
    this.#ready ??= this.#opened().catch((error: unknown) => {
      this.#ready = undefined
      throw error
    })
    const child = await this.#ready
    if (this.#isClosed) throw isClosing()
    return child
  }

  /** On the GPU, or on the CPU where that fails: with too little memory llama.cpp ends the process. */
  async #opened(): Promise<Encoder> {
    const { gpuLibrary, ...onCpu } = this.options
    if (gpuLibrary === undefined) return await this.#whenReady(this.#fork(onCpu))
    try {
      return await this.#whenReady(this.#fork({ ...onCpu, gpuLibrary }))
    } catch (error) {
      if (this.#isClosed) throw error
      const child = await this.#whenReady(this.#fork(onCpu))
      const message = 'the GPU cannot take the projector: the CPU encodes images and sounds'
      this.logger.warn({ err: error }, message)
      return child
    }
  }

  #fork(options: MediaLibraryOptions): Encoder {
    const file = attempt(openInMemory)
    const shared = file === undefined ? {} : { vectorFile }
    try {
      const about = JSON.stringify({ ...options, ...shared } satisfies EncoderOptions)
      const files = file === undefined ? [] : [file]
      const stdio: StdioOptions = ['ignore', 'ignore', 'pipe', 'ipc', ...files]
      const started = fork(this.entry, [about], { serialization: 'advanced', stdio })
      const child: Encoder = Object.assign(started, { ended: new AbortController(), file })
      child.once('close', () => child.ended.abort())
      child.ended.signal.addEventListener('abort', () => {
        child.file = undefined
        if (file !== undefined) closeSync(file)
      })
      return (this.#child = child)
    } catch (error) {
      if (file !== undefined) closeSync(file)
      throw this.#failed(messageOf(error))
    }
  }

  async #whenReady(child: Encoder): Promise<Encoder> {
    let log = ''
    child.stderr
      ?.setEncoding('utf8')
      .on('data', (text: string) => (log = (log + text).slice(-2000)))
    return await new Promise<Encoder>((resolve, reject) => {
      let problem = 'its process ended'
      let isReady = false
      const fail = (): void => {
        cancel()
        // The next one may have been started.
        if (isReady && this.#child === child) this.#ready = undefined
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
        // Without a process there may be no end of it, which others wait for, too.
        if (child.pid === undefined) child.ended.abort()
      })
      child.ended.signal.addEventListener('abort', () => {
        fail()
        if (!isReady || this.#isClosed || this.#child !== child) return
        const about = { code: child.exitCode, signal: child.signalCode, log }
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

/** A file that nobody else can open and that nobody has to remove: it has no name. */
function openInMemory(): number {
  const folder = mkdtempSync(join(memoryFolder, 'cllm-'))
  try {
    return openSync(join(folder, 'vectors'), 'wx+', 0o600)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** The pieces with their vectors. The file keeps nothing, also of an answer that says what failed behind some pieces. */
function piecesOf(answer: EncoderAnswer, call: EncodeCall, file?: number): readonly MediaPiece[] {
  try {
    if (answer.type === 'failed') {
      const code = answer.isUnreadable ? 'invalid_media' : 'backend_failed'
      throw new CllmError(code, `${call.type}: ${answer.message}`)
    }
    return answer.pieces.map((piece) => {
      if (!('at' in piece)) return piece
      const { at, ...told } = piece
      return { ...told, vectors: readVectors(file, at, piece.count * call.width) }
    })
  } finally {
    if (file !== undefined) ftruncateSync(file)
  }
}

function readVectors(file: number | undefined, at: number, length: number): Float32Array {
  const vectors = new Float32Array(length)
  for (let done = 0; done < vectors.byteLength;) {
    const got = readSync(file!, vectors, done, vectors.byteLength - done, at + done)
    if (got === 0) throw new CllmError('backend_failed', 'vectors of the file are missing')
    done += got
  }
  return vectors
}

const isClosing = (): CllmError =>
  new CllmError('shutting_down', 'the encoder of images and sounds is being closed')
