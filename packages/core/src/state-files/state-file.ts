import { type FileHandle, open } from 'node:fs/promises'
import { crc32 } from 'node:zlib'
import type { StateHead } from '../contracts/engine/state-files.js'
import { sumBytes } from './thread/run-task.js'
import { readThread, writeThread } from './thread/state-thread.js'

/** What a file begins with: our name and the version of the format. */
const magic = Buffer.from('CLLMST01')
const numberBytes = 4
/** A longer list of fields is none of ours. */
const longestFields = 65_536

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
 * Returns its bytes.
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
  const before = Buffer.concat([magic, length, text, ids])
  await writeThread.run({ type: 'write', path, temporary, head: before, data })
  return before.byteLength + data.byteLength + sumBytes
}

/**
 * Reads all but the state.
 * @throws Error that says why it is no whole state
 */
export async function readStateHead(path: string): Promise<ReadHead> {
  const { head } = await openHead(path)
  return head
}

/**
 * Reads a whole file and checks it.
 *
 * @param allocate - gives memory for the state, which need not be copied if it is shared
 * @throws Error that says why it is no whole state
 */
export async function readStateFile(
  path: string,
  allocate: (bytes: number) => Uint8Array | undefined,
): Promise<ReadHead & { readonly data: Uint8Array }> {
  const { head, before } = await openHead(path)
  const { bytes, start } = head
  const data = allocate(bytes)?.subarray(0, bytes)
  if (data === undefined) throw new Error('there is no memory for it')
  const isShared = data.buffer instanceof SharedArrayBuffer
  const shared = isShared ? data : new Uint8Array(new SharedArrayBuffer(bytes))
  await readThread.run({ type: 'read', path, start, sum: crc32(before), data: shared })
  if (!isShared) data.set(shared)
  return { ...head, data }
}

async function openHead(path: string): Promise<{ head: ReadHead; before: Buffer }> {
  const file = await open(path, 'r')
  try {
    return await readHead(file)
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
  if (size !== at + numberBytes * count + bytes + sumBytes) throw new Error('it is cut short')
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
