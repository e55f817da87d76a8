// The process that decodes and encodes images and sounds, so that a file which crashes the library ends no engine. It
// is started with the options as JSON, sends `ready` or `error`, and then answers one request after the other.
import { writeSync } from 'node:fs'
import { constants, setPriority } from 'node:os'
import process from 'node:process'
import { attempt, type MediaType, messageOf } from '@cllm/core'
import {
  MediaLibrary,
  type MediaLibraryOptions,
  type MediaPiece,
  UnreadableFile,
} from '../native/ffi/media-library.js'

/** The options of the process. */
export interface EncoderOptions extends MediaLibraryOptions {
  /** The descriptor of a file in memory that both processes have open, as messages would copy vectors six times. */
  readonly vectorFile?: number
}

/** A piece as it is sent. */
type ToldPiece =
  | MediaPiece
  /** Its vectors are in the file, at this byte. */
  | (Omit<Extract<MediaPiece, { readonly count: number }>, 'vectors'> & { readonly at: number })

/** A file to encode. */
export interface EncodeCall {
  readonly type: MediaType
  readonly file: Uint8Array<ArrayBuffer>
  /** Whether an image is scaled down before. */
  readonly detail?: 'low'
  /** The length of a vector. */
  readonly width: number
}

/** A message from the process. */
export type EncoderMessage =
  | { readonly type: 'ready'; readonly types: readonly MediaType[] }
  | { readonly type: 'error'; readonly message: string }
  /** What comes before its answer, if the file can be read: the pieces without vectors. */
  | { readonly type: 'counted'; readonly pieces: readonly MediaPiece[] }
  | { readonly type: 'encoded'; readonly pieces: readonly ToldPiece[] }
  | {
      readonly type: 'failed'
      readonly message: string
      /** Whether it is the file's fault. */
      readonly isUnreadable: boolean
    }

// on few cores, the threads of a step would wait for an encoding thread
setPriority(constants.priority.PRIORITY_BELOW_NORMAL)

const say = (message: EncoderMessage, then?: () => void): unknown =>
  process.send?.(message, undefined, undefined, then)
// killed, as `exit` would wait for the encoding thread
process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'))

try {
  const { vectorFile, ...options } = JSON.parse(process.argv[2] ?? '') as EncoderOptions
  const library = await MediaLibrary.open(options)
  /** A piece to send; without a file, or room in it, its vectors are in the message. */
  const toldOf = (piece: MediaPiece, at: number): ToldPiece => {
    if ('tokens' in piece) return piece
    const { vectors, ...told } = piece
    const isWritten = vectorFile !== undefined && attempt(() => writeAll(vectorFile, vectors, at))
    return isWritten ? { ...told, at } : { ...told, vectors: vectors.slice() }
  }
  const encode = async ({ file, detail, width }: EncodeCall): Promise<void> => {
    try {
      const pieces: ToldPiece[] = []
      let at = 0
      const onCounted = (counted: readonly MediaPiece[]) =>
        say({ type: 'counted', pieces: counted })
      await library.encode(file, width, detail, onCounted, (piece) => {
        pieces.push(toldOf(piece, at))
        if ('vectors' in piece) at += piece.vectors.byteLength
      })
      say({ type: 'encoded', pieces })
    } catch (error) {
      const isUnreadable = error instanceof UnreadableFile
      say({ type: 'failed', message: messageOf(error), isUnreadable })
    }
  }
  // The supervisor sends one call at a time.
  process.on('message', (call: EncodeCall) => void encode(call))
  say({ type: 'ready', types: library.types })
} catch (error) {
  say({ type: 'error', message: messageOf(error) }, () => process.disconnect?.())
}

function writeAll(
  file: number,
  { buffer, byteOffset, byteLength }: Float32Array,
  at: number,
): true {
  const bytes = new Uint8Array(buffer, byteOffset, byteLength)
  for (let done = 0; done < byteLength;) {
    done += writeSync(file, bytes, done, byteLength - done, at + done)
  }
  return true
}
