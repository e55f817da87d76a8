import { createHash, randomUUID } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { mkdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { CllmError } from '@cllm/core'
import type { BlobStore } from '@cllm/http-koa'
import { checkGguf } from '../fetch/check-file.js'

/** Files that clients send, in a folder of the cache, under their SHA-256. */
export class BlobFiles implements BlobStore {
  /** @param onModel - serves the model of a file under a name */
  constructor(
    private readonly folder: string,
    private readonly onModel: (name: string, path: string) => void,
  ) {}

  async has(digest: string): Promise<boolean> {
    return (await stat(this.#pathOf(digest)).catch(() => undefined)) !== undefined
  }

  async add(digest: string, bytes: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<void> {
    await mkdir(this.folder, { recursive: true })
    const part = join(this.folder, `${randomUUID()}.part`)
    const hash = createHash('sha256')
    const hashing = new Transform({
      transform(chunk: Buffer, _, done) {
        hash.update(chunk)
        done(null, chunk)
      },
    })
    try {
      await pipeline(bytes, hashing, createWriteStream(part, { mode: 0o600 }), { signal })
      const received = hash.digest('hex')
      if (received !== digest) {
        const message = `digest: expected the bytes of sha256:${digest}, instead got sha256:${received}`
        throw new CllmError('invalid_request', message, { details: { field: 'digest' } })
      }
      await rename(part, this.#pathOf(digest))
    } finally {
      await rm(part, { force: true })
    }
  }

  async serve(name: string, digest: string): Promise<void> {
    if (!(await this.has(digest))) {
      const message = `files: there is no blob sha256:${digest}: send it to /api/blobs first`
      throw new CllmError('invalid_request', message, { details: { field: 'files' } })
    }
    const path = this.#pathOf(digest)
    await checkGguf(path)
    this.onModel(name, path)
  }

  #pathOf(digest: string): string {
    return join(this.folder, `sha256-${digest}`)
  }
}
