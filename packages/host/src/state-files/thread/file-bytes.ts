import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import { crc32 } from 'node:zlib'
import type { ByteSource } from './state-format.js'

/** Reads a file from its beginning to its end. */
export class FileBytes implements ByteSource {
  readonly #file: number
  readonly #size: number
  #at = 0
  /** The CRC-32 of what was read. */
  sum = 0

  /** @throws Error of the operating system */
  constructor(path: string) {
    this.#file = openSync(path, 'r')
    this.#size = fstatSync(this.#file).size
  }

  get left(): number {
    return this.#size - this.#at
  }

  take(count: number): Buffer {
    const bytes = Buffer.alloc(count)
    this.into(bytes)
    return bytes
  }

  /** Fills these bytes with the next ones. */
  into(bytes: Uint8Array): void {
    for (let done = 0; done < bytes.byteLength;) {
      const count = readSync(this.#file, bytes, done, bytes.byteLength - done, this.#at + done)
      if (count === 0) throw new Error('it is cut short')
      done += count
    }
    this.#at += bytes.byteLength
    this.sum = crc32(bytes, this.sum)
  }

  close(): void {
    closeSync(this.#file)
  }
}
