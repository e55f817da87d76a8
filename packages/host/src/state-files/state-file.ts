import { createHash, createHmac, scryptSync } from 'node:crypto'
import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { type StateHead, type SlotFiles, CllmError } from '@cllm/core'
import { bytesOf, readStateIn, sizeOf } from './thread/state-bytes.js'
import { ending } from './thread/state-jobs.js'
import { type ReadHead, writeHead } from './thread/state-format.js'
import { readThread, writeThread, slotThread } from './thread/state-thread.js'

/** The 32 bytes that files are encrypted with, derived from words. */
export function secretOf(words: string | undefined): Uint8Array | undefined {
  return words === undefined ? undefined : scryptSync(words, 'saved states of cllm', 32)
}

/** A state's file name: a hash of all that identifies the state. With a secret, nobody else can guess it. */
export function stateName({ key, scope, partial, tokens }: StateHead, secret?: Uint8Array): string {
  const hash = secret === undefined ? createHash('sha256') : createHmac('sha256', secret)
  hash.update(JSON.stringify([key, scope, partial]))
  hash.update(Int32Array.from(tokens))
  return `${hash.digest('hex').slice(0, 40)}${ending}`
}

/** The bytes that a file of this state has, to be stored elsewhere. */
export const stateBytes = (head: StateHead, data: Uint8Array, secret?: Uint8Array): Buffer =>
  Buffer.concat([...bytesOf(writeHead(head, data.byteLength), data, secret)])

/**
 * Reads a state from the bytes of {@link stateBytes}.
 *
 * @throws Error that says why it is no whole state of this name
 */
export function stateIn(name: string, bytes: Buffer, secret?: Uint8Array): ReadHead {
  const read = readStateIn(bytes, secret)
  if (stateName(read, secret) !== name) throw new Error(misnamed)
  return read
}

export const misnamed = 'it holds other tokens than it is named for'

/**
 * Writes a state in the format of `bytesOf`. The file appears whole or not at all, and only its owner can read it.
 * Returns its size in bytes.
 *
 * @param secret - 32 bytes; default: it is not encrypted
 * @param thread - writes it; default: the thread that nobody waits for
 * @param instead - the version of the file that it replaces; default: any
 */
export async function writeStateFile(
  path: string,
  head: StateHead,
  data: Uint8Array,
  secret?: Uint8Array,
  thread = writeThread,
  instead?: string,
): Promise<number> {
  const before = writeHead(head, data.byteLength)
  await thread.run('write', path, before, data, secret, instead)
  return sizeOf(before.byteLength, data.byteLength, secret !== undefined)
}

/**
 * Reads a whole file into `data` and checks it.
 *
 * @throws Error that says why it is no whole state of this length
 */
export async function readStateFile(
  path: string,
  data: Uint8Array,
  secret?: Uint8Array,
): Promise<ReadHead> {
  const isShared = data.buffer instanceof SharedArrayBuffer
  const shared = isShared ? data : new Uint8Array(new SharedArrayBuffer(data.byteLength))
  const head = await readThread.run('read', path, secret, shared)
  if (!isShared) data.set(shared)
  return head
}

/** Letters, digits and `_ . -` only, so that no name leads out of the folder. */
const allowed = /^(?!\.)[\w.-]{1,200}$/

/** Files of slots in a folder; only their owner can read them. */
export class SlotFolder implements SlotFiles {
  readonly #secret: Uint8Array | undefined
  /** Whether the unfinished files of writers that died were removed. */
  #isSwept = false

  /** @param key - words that the files are encrypted with; default: they are not encrypted */
  constructor(
    private readonly folder: string,
    key?: string,
  ) {
    this.#secret = secretOf(key)
  }

  async write(filename: string, head: StateHead, data: Uint8Array): Promise<number> {
    const path = this.#path(filename)
    try {
      const bytes = await writeStateFile(path, head, data, this.#secret)
      if (!this.#isSwept) await writeThread.run('sweep', this.folder)
      this.#isSwept = true
      return bytes
    } catch (cause) {
      // Messages about files contain the folder's path, which a client need not know.
      const { code = 'failed' } = cause as NodeJS.ErrnoException
      const message = `${filename} cannot be written to the folder for slots: ${code}`
      throw new CllmError('storage_failed', message, { cause })
    }
  }

  async read(filename: string, check: (head: StateHead) => void) {
    const path = this.#path(filename)
    // Opened once, as another server may replace it meanwhile. Opening a pipe would wait for its writer for ever.
    const file = await usable(filename, open(path, constants.O_RDONLY | constants.O_NONBLOCK))
    try {
      const found = await file.stat()
      if (!found.isFile()) throw refused(`${filename} cannot be used: it is no file`)
      const head = await usable(filename, slotThread.run('read', file.fd, this.#secret))
      check(head)
      const data = new Uint8Array(new SharedArrayBuffer(head.bytes))
      await usable(filename, slotThread.run('read', file.fd, this.#secret, data))
      return { head, data, bytes: found.size }
    } finally {
      await file.close()
    }
  }

  #path(filename: string): string {
    if (allowed.test(filename)) return join(this.folder, filename)
    throw refused('filename: expected up to 200 letters, digits, _ . and -, with no . in front')
  }
}

/** The result of work with a file; throws the reason why the file cannot be used. */
async function usable<T>(filename: string, work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException
    const problem = code === 'ENOENT' ? 'does not exist' : `cannot be used: ${code ?? message}`
    throw refused(`${filename} ${problem}`)
  }
}

const refused = (message: string): CllmError =>
  new CllmError('invalid_request', message, { details: { field: 'filename' } })
