import { createHash, randomUUID } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { mkdir, readdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { CllmError } from '@cllm/core'
import type { BlobStore } from '@cllm/http-koa'
import { exists } from '../model-files.js'

/** Most bytes of all files together. */
const defaultLimitBytes = 64 * 2 ** 30

/** Milliseconds without a write after which an upload counts as abandoned by a killed process. */
const leftMs = 24 * 3_600_000

/** Files that clients send, in a folder of the cache, under their SHA-256. */
export class BlobFiles implements BlobStore {
  /** The digest of each model's file, by the model's name. */
  readonly #served = new Map<string, string>()

  /** @param onModel - serves the model of a file under a name */
  constructor(
    private readonly folder: string,
    private readonly onModel: (name: string, path: string) => void,
    private readonly limitBytes = defaultLimitBytes,
  ) {}

  async has(digest: string): Promise<boolean> {
    return await exists(this.#pathOf(digest))
  }

  /**
   * Keeps a file. Files without a model make room for it, the oldest first.
   *
   * @throws `invalid_request` when its bytes have another SHA-256, `body_too_large` when the files of models
   *   leave no room for it
   */
  async add(digest: string, bytes: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<void> {
    await mkdir(this.folder, { recursive: true })
    const part = join(this.folder, `${randomUUID()}.part`)
    const hash = createHash('sha256')
    let room = this.limitBytes - total((await this.#files()).filter(({ isNeeded }) => isNeeded))
    const hashing = new Transform({
      transform(chunk: Buffer, _, done) {
        hash.update(chunk)
        room -= chunk.length
        done(room < 0 ? noRoom() : null, chunk)
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
    await this.#shrink(digest)
  }

  async serve(name: string, digest: string): Promise<void> {
    const path = this.#pathOf(digest)
    if (!(await this.has(digest)))
      throw wrongFile(`there is no blob sha256:${digest}: send it to /api/blobs first`)
    // Imported here: a server's process needs nothing else of this package.
    const { readModelShape } = await import('@cllm/backend-llamacpp')
    const shape = await readModelShape(path).catch((cause: unknown) => {
      throw wrongFile(`blob sha256:${digest}: ${withoutPath(CllmError.from(cause).message, path)}`)
    })
    if (shape.vocabularySize === 0) {
      throw wrongFile(`blob sha256:${digest}: expected a model with token_embd.weight`)
    }
    this.#served.set(name, digest)
    this.onModel(name, path)
  }

  /** Whether a model was made of a file here. */
  isOf(name: string): boolean {
    return this.#served.has(name)
  }

  /** Forgets a model, and deletes its file unless that is to stay or another model has it. */
  async remove(name: string, { keepsFile = false } = {}): Promise<void> {
    const digest = this.#served.get(name)
    this.#served.delete(name)
    if (digest !== undefined && !keepsFile && ![...this.#served.values()].includes(digest)) {
      await rm(this.#pathOf(digest), { force: true })
    }
  }

  /** Deletes files without a model, the oldest first, until all fit the limit; the newest stays. */
  async #shrink(newest: string): Promise<void> {
    const files = await this.#files()
    let bytes = total(files)
    for (const { path, size, isNeeded } of files) {
      if (bytes <= this.limitBytes) return
      if (isNeeded || path === this.#pathOf(newest)) continue
      await rm(path, { force: true })
      bytes -= size
    }
  }

  /** All files, the oldest first; those of models and of uploads in progress are needed. */
  async #files() {
    const served = new Set([...this.#served.values()].map((digest) => this.#pathOf(digest)))
    // what others put here is not ours to delete
    const names = (await readdir(this.folder)).filter((name) => /^sha256-|\.part$/.test(name))
    const files = names.map(async (name) => {
      const path = join(this.folder, name)
      // another upload may delete it meanwhile, to make room
      const found = await stat(path).catch(() => undefined)
      if (found === undefined) return []
      const { size, mtimeMs } = found
      const isUnderWay = name.endsWith('.part') && mtimeMs > Date.now() - leftMs
      return [{ path, size, mtimeMs, isNeeded: isUnderWay || served.has(path) }]
    })
    return (await Promise.all(files)).flat().toSorted((a, b) => a.mtimeMs - b.mtimeMs)
  }

  #pathOf(digest: string): string {
    return join(this.folder, `sha256-${digest}`)
  }
}

/** A message for clients, who are not told where files are. */
export const withoutPath = (message: string, path: string): string =>
  message.replaceAll(path, 'the file')

const total = (files: readonly { readonly size: number }[]): number =>
  files.reduce((sum, { size }) => sum + size, 0)

const noRoom = (): CllmError =>
  new CllmError('body_too_large', 'The files of models leave no room for this one')

const wrongFile = (problem: string): CllmError =>
  new CllmError('invalid_request', `files: ${problem}`, { details: { field: 'files' } })
