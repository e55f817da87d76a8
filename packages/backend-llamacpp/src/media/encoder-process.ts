// The process in which images are decoded and encoded: a file that ends it ends no engine. It is started with the
// options as JSON, says `ready` or `error`, and answers one request after the other.
import process from 'node:process'
import {
  MediaLibrary,
  type MediaLibraryOptions,
  type MediaPiece,
  UnreadableFile,
} from '../native/ffi/media-library.js'

/** A file to encode. */
export interface EncodeCall {
  readonly id: number
  readonly file: Uint8Array<ArrayBuffer>
  /** The length of a vector. */
  readonly width: number
}

/** What the process says. */
export type EncoderMessage =
  | { readonly type: 'ready' }
  | { readonly type: 'error'; readonly message: string }
  | { readonly type: 'encoded'; readonly id: number; readonly pieces: readonly MediaPiece[] }
  | {
      readonly type: 'failed'
      readonly id: number
      readonly message: string
      /** Whether the file is to blame. */
      readonly isUnreadable: boolean
    }

const say = (message: EncoderMessage, then?: () => void): unknown =>
  process.send?.(message, undefined, undefined, then)
process.on('disconnect', () => process.exit(0))

try {
  const options = JSON.parse(process.argv[2] ?? '') as MediaLibraryOptions
  const library = await MediaLibrary.open(options)
  let last: Promise<unknown> = Promise.resolve()
  process.on('message', ({ id, file, width }: EncodeCall) => {
    // llama.cpp encodes one image at a time
    last = last.then(async () => {
      try {
        const bytes = new Uint8Array(file)
        say({ type: 'encoded', id, pieces: await library.encode(bytes, width) })
      } catch (error) {
        const isUnreadable = error instanceof UnreadableFile
        say({ type: 'failed', id, message: messageOf(error), isUnreadable })
      }
    })
  })
  say({ type: 'ready' })
} catch (error) {
  say({ type: 'error', message: messageOf(error) }, () => process.disconnect?.())
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
