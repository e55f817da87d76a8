// The process in which images and sounds are decoded and encoded: a file that ends it ends no engine. It is started with the
// options as JSON, says `ready` or `error`, and answers one request after the other.
import { constants, setPriority } from 'node:os'
import process from 'node:process'
import { type MediaType, messageOf } from '@cllm/core'
import {
  MediaLibrary,
  type MediaLibraryOptions,
  type MediaPiece,
  UnreadableFile,
} from '../native/ffi/media-library.js'

/** A file to encode. */
export interface EncodeCall {
  readonly id: number
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
  | { readonly type: 'encoded'; readonly id: number; readonly pieces: readonly MediaPiece[] }
  | {
      readonly type: 'failed'
      readonly id: number
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
  const options = JSON.parse(process.argv[2] ?? '') as MediaLibraryOptions
  const library = await MediaLibrary.open(options)
  const encode = async ({ id, file, detail, width }: EncodeCall): Promise<void> => {
    try {
      const bytes = new Uint8Array(file)
      say({ type: 'encoded', id, pieces: await library.encode(bytes, width, detail) })
    } catch (error) {
      const isUnreadable = error instanceof UnreadableFile
      say({ type: 'failed', id, message: messageOf(error), isUnreadable })
    }
  }
  // They come one at a time.
  process.on('message', (call: EncodeCall) => void encode(call))
  say({ type: 'ready', types: library.types })
} catch (error) {
  say({ type: 'error', message: messageOf(error) }, () => process.disconnect?.())
}
