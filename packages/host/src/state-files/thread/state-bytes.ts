import type { DecipherGCM } from 'node:crypto'
import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'
import { closeSync, fstatSync, openSync, readSync, type Stats } from 'node:fs'
import { crc32 } from 'node:zlib'
import {
  magic,
  numberBytes,
  type ReadHead,
  readHead,
  sealedMagic,
  strangeness,
  StateSource,
  sourceOf,
  cutShort,
} from './state-format.js'

/** Bytes that are read or written at once: few enough to be still in the processor's cache for the checksum. */
const chunkBytes = 2 ** 20
const method = 'aes-256-gcm'
const nonceBytes = 12
const tagBytes = 16
const keyNameBytes = 8
const changed = 'it was changed, or damaged'

type Memory = Uint8Array | 'new'

/**
 * The bytes of a file, in chunks. Without a secret: the head, the state, and the CRC-32 of both. With one: the magic,
 * the name of the secret, the length of the head, and then the head and the state, each between a nonce and an
 * authentication tag; the state's tag is bound to the head.
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

/** The size of the file of {@link bytesOf}. */
export function sizeOf(headBytes: number, bytes: number, isSealed: boolean): number {
  const more = sealedMagic.byteLength + keyNameBytes + numberBytes + 2 * (nonceBytes + tagBytes)
  return headBytes + bytes + (isSealed ? more : numberBytes)
}

/**
 * Reads the head of a file, and the state if there is memory for it: of exactly its length, or `new`.
 * @param path - or the descriptor of the open file, which stays open
 * @throws Error that says why it is no whole state of this secret
 */
export function readState(path: string | number, secret?: Uint8Array, memory?: Memory): ReadHead {
  const file = typeof path === 'number' ? path : openSync(path, 'r')
  try {
    const found = fstatSync(file)
    const source = new StateSource(found.size, (bytes, at) => readFully(file, bytes, at))
    const read = readStateFrom(source, secret, memory)
    return { ...read, usedAt: found.mtimeMs, version: versionOf(found) }
  } finally {
    if (file !== path) closeSync(file)
  }
}

/** A file's version: changes when it is replaced, not when it is touched. Inodes alone may be used again. */
export const versionOf = ({ ino, birthtimeMs }: Stats): string => `${ino} ${birthtimeMs}`

/** {@link readState} for the bytes of a file in memory. */
export const readStateIn = (bytes: Buffer, secret?: Uint8Array): ReadHead =>
  readStateFrom(sourceOf(bytes), secret, 'new')

function readStateFrom(file: StateSource, secret?: Uint8Array, memory?: Memory): ReadHead {
  const opening = file.take(magic.byteLength)
  if (!opening.equals(secret === undefined ? magic : sealedMagic)) {
    throw new Error(strangeness(opening))
  }
  return secret === undefined ? readPlain(file, memory) : readSealed(file, secret, memory)
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
  if (headBytes > file.left) throw new Error(cutShort)
  const decipher = decipherOf(file, secret, Buffer.concat([sealedMagic, name, length]))
  const plain = decipher.update(file.take(headBytes))
  const tag = file.take(tagBytes)
  finish(decipher, tag)
  const head = readHead(sourceOf(plain.subarray(magic.byteLength)))
  checkLength(file, nonceBytes + head.bytes + tagBytes)
  if (memory === undefined) return head
  const data = roomFor(head, memory)
  const state = decipherOf(file, secret, tag)
  for (const chunk of chunksOf(data)) chunk.set(state.update(file.take(chunk.byteLength)))
  finish(state, file.take(tagBytes))
  return { ...head, data }
}

function readFully(file: number, bytes: Uint8Array, from: number): void {
  for (let done = 0; done < bytes.byteLength;) {
    const count = readSync(file, bytes, done, bytes.byteLength - done, from + done)
    if (count === 0) throw new Error(cutShort)
    done += count
  }
}

/** Encrypts bytes, between a nonce and a tag; returns the tag. */
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

function checkLength(file: StateSource, left: number): void {
  if (file.left !== left) throw new Error(cutShort)
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

/** Identifies in a file the secret that it needs, without revealing it. */
const nameOf = (secret: Uint8Array): Buffer =>
  createHash('sha256').update('name').update(secret).digest().subarray(0, keyNameBytes)
