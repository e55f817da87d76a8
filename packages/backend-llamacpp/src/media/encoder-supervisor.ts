import { type ChildProcess, fork, type StdioOptions } from 'node:child_process'
import { closeSync, ftruncateSync, mkdtempSync, openSync, readSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { attempt, CllmError, type Clock, type Logger, type MediaType, messageOf } from '@cllm/core'
import type { MediaLibraryOptions, MediaPiece } from '../native/ffi/media-library.js'
import type { EncodeCall, EncoderMessage, EncoderOptions } from './encoder-process.js'

/** A process that is not ready after this many milliseconds has failed. */
const mostStartMs = 5 * 60_000

/** A killed process that has not ended after this many milliseconds counts as ended. */
const mostEndMs = 10_000

/** A folder whose files are in memory; only Linux has it. */
const memoryFolder = '/dev/shm'

/** The descriptor of the file for vectors in the process, behind those of its messages. */
const vectorFile = 4

type Counted = Extract<EncoderMessage, { readonly type: 'counted' }>
type OnCounted = (pieces: Counted['pieces']) => void
type EncoderAnswer = Extract<EncoderMessage, { readonly type: 'encoded' | 'failed' }>

const encoderProcess = fileURLToPath(new URL('encoder-process.js', import.meta.url))

/** A process that encodes. */
type Encoder = ChildProcess & {
  /** Aborts when the process has ended, or counts as ended. */
  readonly ended: AbortController
  /** The file for vectors; undefined: they are in messages, or the process has ended. */
  file: number | undefined
}

/** Runs one encoder process, and starts another one when a file has ended it. */
export class EncoderSupervisor {
  /** The present process, once it is ready; undefined: the next call starts one. */
  #ready: Promise<Encoder> | undefined
  /** The process that was started last, whether ready, starting or ended. */
  #child: Encoder | undefined
  #isClosed = false
  /** The types of files that the projector takes; empty until it is opened. */
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

  /** Ends the process; an encoding in progress rejects with `shutting_down`. */
  close(): void {
    this.#isClosed = true
    // Also while it is being opened, which may take long.
    if (this.#ready !== undefined && this.#child !== undefined) this.#kill(this.#child)
  }

  /** Encodes in the process, which is started if there is none. If it ends meanwhile, for whatever reason, tries once more. */
  async encode(call: EncodeCall, signal: AbortSignal, onCounted: OnCounted) {
    for (let tries = 0; tries < 2; tries++) {
      const child = await this.#start().catch((error: unknown) => {
        // It may have been killed before it was ready.
        if (tries > 0 || typeof this.#child?.signalCode !== 'string') throw error
      })
      signal.throwIfAborted()
      const answer = child && (await this.#ask(child, call, signal, onCounted))
      if (child && answer) return piecesOf(answer, call, child.file)
      // Starts a process already for the next file.
      void this.#start().catch(() => {})
      if (this.#isClosed) throw isClosing()
      signal.throwIfAborted()
    }
    const message = 'the encoder of images and sounds ended twice while it had this one'
    throw new CllmError('backend_failed', message)
  }

  /** The answer; undefined if the process has ended. The signal ends the process, as the library cannot be interrupted. */
  async #ask(child: Encoder, call: EncodeCall, signal: AbortSignal, onCounted: OnCounted) {
    return await new Promise<EncoderAnswer | undefined>((resolve) => {
      const kill = (): void => this.#kill(child)
      const end = (answer?: EncoderAnswer | Counted): void => {
        if (answer?.type === 'counted') return onCounted(answer.pieces)
        signal.removeEventListener('abort', kill)
        child.ended.signal.removeEventListener('abort', onEnd)
        child.off('message', end)
        resolve(answer)
      }
      const onEnd = (): void => end()
      signal.addEventListener('abort', kill)
      child.ended.signal.addEventListener('abort', onEnd)
      child.on('message', end)
      child.send(call)
    })
  }

  /** Ends a process. If it waits for a device it cannot end, and counts as ended, so that other files are encoded. */
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

  /** Starts a process on the GPU, or on the CPU if that fails: without enough memory llama.cpp ends the process. */
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
        // Another process may have been started.
        if (isReady && this.#child === child) this.#ready = undefined
        reject(this.#failed(problem))
      }
      // A process that waits for a disk ends late, even when it is killed.
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
        // If it could not be spawned there is no exit event, for which others wait.
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
    // If an earlier process was ready, its options are right.
    if (this.types.length > 0) return new CllmError('backend_failed', why)
    return new CllmError('invalid_configuration', why, { details: { field: 'mmproj' } })
  }
}

/** Opens a file without a name, which nobody else can open and nobody has to remove. */
function openInMemory(): number {
  const folder = mkdtempSync(join(memoryFolder, 'cllm-'))
  try {
    return openSync(join(folder, 'vectors'), 'wx+', 0o600)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** The pieces with their vectors, which are removed from the file, even if the answer is an error behind some pieces. */
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
