import { randomBytes } from 'node:crypto'
import { mkdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { SlotFiles } from '../contracts/engine/slot-files.js'
import type { StateHead } from '../contracts/engine/state-files.js'
import { CllmError } from '../errors/cllm-error.js'
import { readStateFile, writeStateFile } from './state-file.js'

/** Letters, digits and `_ . -` only, so that no name leads out of the folder. */
const allowed = /^(?!\.)[\w.-]{1,200}$/

/** Files of slots in a folder; only their owner can read them. */
export class SlotFolder implements SlotFiles {
  constructor(private readonly folder: string) {}

  async write(filename: string, head: StateHead, data: Uint8Array): Promise<number> {
    const path = this.#path(filename)
    const temporary = `${path}.${randomBytes(6).toString('hex')}.tmp`
    await mkdir(this.folder, { recursive: true, mode: 0o700 })
    return await writeStateFile(path, temporary, head, data)
  }

  async read(filename: string) {
    const path = this.#path(filename)
    try {
      const { size: bytes } = await stat(path)
      const allocate = (length: number) => new Uint8Array(new SharedArrayBuffer(length))
      const { data, key, scope, partial, tokens } = await readStateFile(path, allocate)
      return { head: { key, scope, partial, tokens }, data, bytes }
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause)
      const isMissing = (cause as NodeJS.ErrnoException).code === 'ENOENT'
      throw refused(`${filename} ${isMissing ? 'does not exist' : `cannot be used: ${reason}`}`)
    }
  }

  #path(filename: string): string {
    if (allowed.test(filename)) return join(this.folder, filename)
    throw refused('filename: expected up to 200 letters, digits, _ . and -, with no . in front')
  }
}

const refused = (message: string): CllmError =>
  new CllmError('invalid_request', message, { details: { field: 'filename' } })
