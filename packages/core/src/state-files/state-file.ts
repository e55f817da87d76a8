import { type FileHandle, open, rename, rm } from 'node:fs/promises'
import { crc32 } from 'node:zlib'
import type { StateHead } from '../contracts/engine/state-files.js'

/** What a file begins with: our name and the version of the format. */
const magic = Buffer.from('CLLMST01')
const numberBytes = 4
/** A longer list of fields is none of ours. */
const longestFields = 65_536
/** Bytes that are written at once, so that the thread that computes has to wait for few. */
const chunkBytes = 4 * 2 ** 20

/** A file's head, and where the state begins in it. */
export interface ReadHead extends StateHead {
  readonly bytes: number
  readonly start: number
}

interface Fields {
  readonly key: string
  readonly scope: string
  readonly partial: boolean
  readonly tokens: number
  readonly bytes: number
}

/**
 * Writes a state: the magic, the length of the fields, the fields as JSON, the tokens, the state, and
 * the CRC-32 of all that. The file is there whole or not at all, and only its owner can read it.
 *
 * @param temporary - a name beside it that nobody else uses
 */
export async function writeStateFile(
  path: string,
  temporary: string,
  head: StateHead,
  data: Uint8Array,
): Promise<number> {
  const { key, scope, partial, tokens } = head
  const fields: Fields = { key, scope, partial, tokens: tokens.length, bytes: data.byteLength }
  const text = Buffer.from(JSON.stringify(fields))
  const length = Buffer.alloc(numberBytes)
  length.writeUInt32LE(text.byteLength)
  const ids = Buffer.alloc(numberBytes * tokens.length)
  for (const [index, token] of tokens.entries()) ids.writeInt32LE(token, numberBytes * index)
  const file = await open(temporary, 'wx', 0o600)
  let sum = 0
  let written = 0
  const append = async (bytes: Uint8Array): Promise<void> => {
    for (let from = 0; from < bytes.byteLength; from += chunkBytes) {
      const chunk = bytes.subarray(from, from + chunkBytes)
      sum = crc32(chunk, sum)
      await file.write(chunk, 0, chunk.byteLength, written)
      written += chunk.byteLength
    }
  }
  try {
    for (const part of [magic, length, text, ids, data]) await append(part)
    const end = Buffer.alloc(numberBytes)
    end.writeUInt32LE(sum)
    await append(end)
    await file.sync()
    await file.close()
    await rename(temporary, path)
  } catch (error) {
    await file.close().catch(() => {})
    await rm(temporary, { force: true })
    throw error
  }
  return written
}

/**
 * Reads all but the state.
 * @throws Error that says why it is no whole state
 */
export async function readStateHead(path: string): Promise<ReadHead> {
  const file = await open(path, 'r')
  try {
    const { head } = await readHead(file)
    return head
  } finally {
    await file.close()
  }
}

/**
 * Reads a whole file and checks it.
 *
 * @param allocate - gives memory for the state
 * @throws Error that says why it is no whole state
 */
export async function readStateFile(
  path: string,
  allocate: (bytes: number) => Uint8Array | undefined,
): Promise<ReadHead & { readonly data: Uint8Array }> {
  const file = await open(path, 'r')
  try {
    const { head, before } = await readHead(file)
    const data = allocate(head.bytes)?.subarray(0, head.bytes)
    if (data === undefined) throw new Error('there is no memory for it')
    await readFully(file, data, head.start)
    const end = Buffer.alloc(numberBytes)
    await readFully(file, end, head.start + head.bytes)
    if (crc32(data, crc32(before)) !== end.readUInt32LE()) throw new Error('its checksum is wrong')
    return { ...head, data }
  } finally {
    await file.close()
  }
}

async function readHead(file: FileHandle): Promise<{ head: ReadHead; before: Buffer }> {
  const opening = Buffer.alloc(magic.byteLength + numberBytes)
  await readFully(file, opening, 0)
  if (!opening.subarray(0, magic.byteLength).equals(magic)) throw new Error('it is no state')
  const length = opening.readUInt32LE(magic.byteLength)
  if (length > longestFields) throw new Error('its head is too long')
  const text = Buffer.alloc(length)
  await readFully(file, text, opening.byteLength)
  const { key, scope, partial, tokens: count, bytes } = JSON.parse(text.toString()) as Fields
  const at = opening.byteLength + length
  const { size } = await file.stat()
  if (size !== at + numberBytes * count + bytes + numberBytes) throw new Error('it is cut short')
  const ids = Buffer.alloc(numberBytes * count)
  await readFully(file, ids, at)
  const tokens = Array.from({ length: count }, (_, index) => ids.readInt32LE(numberBytes * index))
  const start = at + ids.byteLength
  const head = { key, scope, partial, tokens, bytes, start }
  return { head, before: Buffer.concat([opening, text, ids]) }
}

async function readFully(file: FileHandle, into: Uint8Array, position: number): Promise<void> {
  let done = 0
  while (done < into.byteLength) {
    const { bytesRead } = await file.read(into, done, into.byteLength - done, position + done)
    if (bytesRead === 0) throw new Error('it is cut short')
    done += bytesRead
  }
}
