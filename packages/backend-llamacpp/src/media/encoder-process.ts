// The process in which images and sounds are decoded and encoded: a file that ends it ends no engine. It is started with the
// options as JSON, says `ready` or `error`, and answers one request after the other.
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

/** What the process is started with. */
export interface EncoderOptions extends MediaLibraryOptions {
  /** A file in memory that both processes have open, by its number here: a message would copy vectors six times. */
  readonly vectorFile?: number
}

/** A piece as it is told. */
type ToldPiece =
  | MediaPiece
  /** Its vectors are in the file, from this byte on. */
  | (Omit<Extract<MediaPiece, { readonly count: number }>, 'vectors'> & { readonly at: number })

/** A file to encode. */
export interface EncodeCall {
  readonly type: MediaType
  readonly file: Uint8Array<ArrayBuffer>
  /** Whether an image is shrunk before. */
  readonly detail?: 'low'
  /** The length of a vector. */
  readonly width: number
}

/** What the process says. */
export type EncoderMessage =
  | { readonly type: 'ready'; readonly types: readonly MediaType[] }
  | { readonly type: 'error'; readonly message: string }
  | { readonly type: 'encoded'; readonly pieces: readonly ToldPiece[] }
  | {
      readonly type: 'failed'
      readonly message: string
      /** Whether the file is to blame. */
      readonly isUnreadable: boolean
    }

// where cores are few, the threads of a step would wait for one that encodes
setPriority(constants.priority.PRIORITY_BELOW_NORMAL)

const say = (message: EncoderMessage, then?: () => void): unknown =>
  process.send?.(message, undefined, undefined, then)
// not by an exit, which waits for a thread that encodes
process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'))

try {
  const { vectorFile, ...options } = JSON.parse(process.argv[2] ?? '') as EncoderOptions
  const library = await MediaLibrary.open(options)
  /** Where there is no file, or no room in it, vectors go with the message. */
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
      await library.encode(new Uint8Array(file), width, detail, (piece) => {
        pieces.push(toldOf(piece, at))
        if ('vectors' in piece) at += piece.vectors.byteLength
      })
      say({ type: 'encoded', pieces })
    } catch (error) {
      const isUnreadable = error instanceof UnreadableFile
      say({ type: 'failed', message: messageOf(error), isUnreadable })
    }
  }
  // They come one at a time.
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
