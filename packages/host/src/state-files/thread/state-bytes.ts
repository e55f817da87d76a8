import {
  createCipheriv,
  createDecipheriv,
  createHash,
  type DecipherGCM,
  randomBytes,
} from 'node:crypto'
import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import { crc32 } from 'node:zlib'
import {
  type ByteSource,
  magic,
  numberBytes,
  type ReadHead,
  readHead,
  sealedMagic,
  strangeness,
} from './state-format.js'

/** Bytes that are read or written at once, and are still in the processor's cache for the checksum. */
const chunkBytes = 2 ** 20
const method = 'aes-256-gcm'
const nonceBytes = 12
const tagBytes = 16
const keyNameBytes = 8
const changed = 'it was changed, or damaged'

type Memory = Uint8Array | 'new'

/**
 * The bytes of a file, in chunks. Without a secret: the head, the state, and the CRC-32 of both. With one:
 * the magic, the name of the secret, the length of the head, and then the head and the state, each with a
 * nonce before it and an authentication tag behind it, that of the state bound to the head.
 *
 * @param secret - 32 bytes
 */
export function* bytesOf(
  head: Uint8Array,
  data: Uint8Array,
  secret: Uint8Array | undefined,
): Iterable<Uint8Array> {
  if (secret === undefined) {
    let sum = 0
    for (const part of [head, data]) {
      for (const chunk of chunksOf(part)) {
        sum = crc32(chunk, sum)
        yield chunk
      }
    }
    yield numberOf(sum)
    return
  }
  const opening = Buffer.concat([sealedMagic, nameOf(secret), numberOf(head.byteLength)])
  yield opening
  const tag = yield* sealed(head, secret, opening)
  yield* sealed(data, secret, tag)
}

/** How long the file of {@link bytesOf} is. */
export function sizeOf(headBytes: number, bytes: number, isSealed: boolean): number {
  const more = sealedMagic.byteLength + keyNameBytes + numberBytes + 2 * (nonceBytes + tagBytes)
  return headBytes + bytes + (isSealed ? more : numberBytes)
}

/**
 * Reads the head of a file, and the state if there is memory for it, of exactly its length or new.
 * @throws Error that says why it is no whole state of this secret
 */
export function readState(path: string, secret?: Uint8Array, memory?: Memory): ReadHead {
  const file = new FileBytes(path)
  try {
    return { ...readStateFrom(file, secret, memory), usedAt: file.usedAt }
  } finally {
    file.close()
  }
}

/** {@link readState} of the bytes of a file. */
export const readStateIn = (bytes: Buffer, secret?: Uint8Array): ReadHead =>
  readStateFrom(new PlainBytes(bytes), secret, 'new')

function readStateFrom(file: StateSource, secret?: Uint8Array, memory?: Memory): ReadHead {
  const opening = file.take(magic.byteLength)
  if (!opening.equals(secret === undefined ? magic : sealedMagic)) {
    throw new Error(strangeness(opening))
  }
  return secret === undefined ? readPlain(file, memory) : readSealed(file, secret, memory)
}

/** What a state is read from. */
interface StateSource extends ByteSource {
  /** The CRC-32 of what was read. */
  readonly sum: number
  /** Fills these bytes with the next ones. */
  into(bytes: Uint8Array): void
}

function readPlain(file: StateSource, memory: Memory | undefined): ReadHead {
  const head = readHead(file)
  checkLength(file, head.bytes + numberBytes)
  if (memory === undefined) return head
  const data = roomFor(head, memory)
  for (const chunk of chunksOf(data)) file.into(chunk)
  const { sum } = file
  if (sum !== file.take(numberBytes).readUInt32LE()) throw new Error('its checksum is wrong')
  return { ...head, data }
}

function readSealed(file: StateSource, secret: Uint8Array, memory: Memory | undefined): ReadHead {
  const name = file.take(keyNameBytes)
  if (!name.equals(nameOf(secret))) throw new Error('it is encrypted with another key')
  const length = file.take(numberBytes)
  const headBytes = length.readUInt32LE()
  if (headBytes > file.left) throw new Error('it is cut short')
  const decipher = decipherOf(file, secret, Buffer.concat([sealedMagic, name, length]))
  const plain = decipher.update(file.take(headBytes))
  const tag = file.take(tagBytes)
  finish(decipher, tag)
  const head = readHead(new PlainBytes(plain.subarray(magic.byteLength)))
  checkLength(file, nonceBytes + head.bytes + tagBytes)
  if (memory === undefined) return head
  const data = roomFor(head, memory)
  const state = decipherOf(file, secret, tag)
  for (const chunk of chunksOf(data)) chunk.set(state.update(file.take(chunk.byteLength)))
  finish(state, file.take(tagBytes))
  return { ...head, data }
}

/** Reads a file from its beginning to its end. */
class FileBytes implements StateSource {
  readonly #file: number
  readonly #size: number
  readonly usedAt: number
  #at = 0
  sum = 0

  /** @throws Error of the operating system */
  constructor(path: string) {
    this.#file = openSync(path, 'r')
    const { size, mtimeMs } = fstatSync(this.#file)
    this.#size = size
    this.usedAt = mtimeMs
  }

  get left(): number {
    return this.#size - this.#at
  }

  take(count: number): Buffer {
    const bytes = Buffer.alloc(count)
    this.into(bytes)
    return bytes
  }

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

/** Bytes in memory. */
class PlainBytes implements StateSource {
  #at = 0
  sum = 0

  constructor(private readonly bytes: Buffer) {}

  get left(): number {
    return this.bytes.byteLength - this.#at
  }

  take(count: number): Buffer {
    if (count > this.left) throw new Error('it is cut short')
    this.#at += count
    const taken = this.bytes.subarray(this.#at - count, this.#at)
    this.sum = crc32(taken, this.sum)
    return taken
  }

  into(bytes: Uint8Array): void {
    bytes.set(this.take(bytes.byteLength))
  }
}

/** Returns the tag. */
function* sealed(
  bytes: Uint8Array,
  secret: Uint8Array,
  bound: Uint8Array,
): Generator<Uint8Array, Buffer> {
  const nonce = randomBytes(nonceBytes)
  const cipher = createCipheriv(method, secret, nonce).setAAD(bound)
  yield nonce
  for (const chunk of chunksOf(bytes)) yield cipher.update(chunk)
  cipher.final()
  const tag = cipher.getAuthTag()
  yield tag
  return tag
}

function decipherOf(file: StateSource, secret: Uint8Array, bound: Uint8Array): DecipherGCM {
  const nonce = file.take(nonceBytes)
  return createDecipheriv(method, secret, nonce, { authTagLength: tagBytes }).setAAD(bound)
}

function finish(decipher: DecipherGCM, tag: Buffer): void {
  try {
    decipher.setAuthTag(tag).final()
  } catch {
    throw new Error(changed)
  }
}

function checkLength(file: ByteSource, left: number): void {
  if (file.left !== left) throw new Error('it is cut short')
}

function roomFor({ bytes }: ReadHead, memory: Memory): Uint8Array {
  const data = memory === 'new' ? new Uint8Array(bytes) : memory
  if (bytes !== data.byteLength) throw new Error(`it holds ${bytes} bytes, not ${data.byteLength}`)
  return data
}

function* chunksOf(bytes: Uint8Array): Iterable<Uint8Array> {
  for (let from = 0; from < bytes.byteLength; from += chunkBytes) {
    yield bytes.subarray(from, from + chunkBytes)
  }
}

function numberOf(value: number): Buffer {
  const bytes = Buffer.alloc(numberBytes)
  bytes.writeUInt32LE(value)
  return bytes
}

/** By which a file says which secret it needs, without giving it away. */
const nameOf = (secret: Uint8Array): Buffer =>
  createHash('sha256').update('name').update(secret).digest().subarray(0, keyNameBytes)
