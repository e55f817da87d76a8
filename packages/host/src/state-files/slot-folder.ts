import { randomBytes } from 'node:crypto'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { type SlotFiles, type StateHead, CllmError } from '@cllm/core'
import { slotThread, writeThread } from './thread/state-thread.js'
import { readStateFile, secretOf, writeStateFile } from './state-file.js'

/** Letters, digits and `_ . -` only, so that no name leads out of the folder. */
const allowed = /^(?!\.)[\w.-]{1,200}$/

/** Files of slots in a folder; only their owner can read them. */
export class SlotFolder implements SlotFiles {
  readonly #secret: Uint8Array | undefined
  /** Whether what writers that died have left was removed. */
  #isSwept = false

  /** @param key - what they are encrypted with; default: they are not */
  constructor(
    private readonly folder: string,
    key?: string,
  ) {
    this.#secret = secretOf(key)
  }

  async write(filename: string, head: StateHead, data: Uint8Array): Promise<number> {
    const path = this.#path(filename)
    const temporary = `${path}.${randomBytes(6).toString('hex')}.tmp`
    try {
      const bytes = await writeStateFile(path, temporary, head, data, this.#secret)
      if (!this.#isSwept) await writeThread.run('sweep', this.folder)
      this.#isSwept = true
      return bytes
    } catch (cause) {
      const message = `${filename} cannot be written in ${this.folder}: ${(cause as Error).message}`
      throw new CllmError('backend_failed', message, { cause })
    }
  }

  async read(filename: string, check: (head: StateHead) => void) {
    const path = this.#path(filename)
    const { size: bytes } = await usable(filename, stat(path))
    const { bytes: length, ...head } = await usable(
      filename,
      slotThread.run('read', path, this.#secret),
    )
    check(head)
    const data = new Uint8Array(new SharedArrayBuffer(length))
    await usable(filename, readStateFile(path, data, this.#secret, slotThread))
    return { head, data, bytes }
  }

  #path(filename: string): string {
    if (allowed.test(filename)) return join(this.folder, filename)
    throw refused('filename: expected up to 200 letters, digits, _ . and -, with no . in front')
  }
}

/** What comes of work with a file; says why it cannot be used. */
async function usable<T>(filename: string, work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException
    const problem = code === 'ENOENT' ? 'does not exist' : `cannot be used: ${message}`
    throw refused(`${filename} ${problem}`)
  }
}

const refused = (message: string): CllmError =>
  new CllmError('invalid_request', message, { details: { field: 'filename' } })
