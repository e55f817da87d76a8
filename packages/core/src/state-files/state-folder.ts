import { createHash, randomBytes } from 'node:crypto'
import { chmod, mkdir, readdir, rm, stat, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock } from '../contracts/clock.js'
import type { StateFile, StateFiles, StateHead } from '../contracts/engine/state-files.js'
import type { Logger } from '../contracts/logger.js'
import { readStateFile, readStateHead, writeStateFile } from './state-file.js'

const ending = '.state'
const unfinished = '.tmp'
/** What a writer that died has left is removed after this long. */
const unfinishedMs = 3_600_000

/** Options of {@link StateFolder}. */
export interface StateFolderOptions {
  readonly folder: string
  /** Most bytes of all files. */
  readonly limitBytes: number
  /** A file that nobody used for this long is removed; default: never. */
  readonly maxAgeMs?: number
}

interface Seen {
  readonly name: string
  readonly size: number
  readonly usedAt: number
}

/**
 * States in a folder, a file each, that only its owner can read. Several processes may use one folder:
 * a file is written beside its place and then renamed, its name follows from what is in it, and one that
 * is gone is as good as never written.
 */
export class StateFolder implements StateFiles {
  readonly limitBytes: number

  /** @param clock that of the file times: milliseconds since the epoch */
  constructor(
    private readonly options: StateFolderOptions,
    private readonly clock: Clock,
    private readonly logger: Logger,
  ) {
    this.limitBytes = options.limitBytes
  }

  async list(key: string): Promise<StateFile[]> {
    const found: StateFile[] = []
    await this.#attempt('cannot be read', async () => {
      await this.#prepare()
      for (const { name } of await this.#clean()) {
        await this.#attempt(`${name} is ignored`, async () => {
          const head = await readStateHead(this.#path(name))
          if (head.key === key) found.push({ ...head, name })
        })
      }
    })
    return found
  }

  async read(
    file: StateFile,
    allocate: (bytes: number) => Uint8Array | undefined,
  ): Promise<Uint8Array | undefined> {
    return await this.#attempt(`${file.name} is ignored`, async () => {
      const { data, ...head } = await readStateFile(this.#path(file.name), allocate)
      if (nameOf(head) !== file.name) throw new Error('it holds other tokens than it is named for')
      return data
    })
  }

  async write(head: StateHead, data: Uint8Array): Promise<StateFile | undefined> {
    if (data.byteLength > this.limitBytes) return undefined
    const name = nameOf(head)
    return await this.#attempt('cannot be written to', async () => {
      await this.#prepare()
      await this.#clean(data.byteLength)
      const temporary = this.#path(`${name}.${randomBytes(6).toString('hex')}${unfinished}`)
      await writeStateFile(this.#path(name), temporary, head, data)
      return { ...head, name, bytes: data.byteLength }
    })
  }

  async touch({ name }: StateFile): Promise<void> {
    const now = this.clock.now() / 1000
    // Another process may have removed it.
    await utimes(this.#path(name), now, now).catch(() => {})
  }

  async remove({ name }: StateFile): Promise<void> {
    await rm(this.#path(name), { force: true }).catch(() => {})
  }

  #path(name: string): string {
    return join(this.options.folder, name)
  }

  async #prepare(): Promise<void> {
    await mkdir(this.options.folder, { recursive: true, mode: 0o700 })
    await chmod(this.options.folder, 0o700)
  }

  /** Removes what is too old or too much with `more` bytes, and returns the others, the latest used last. */
  async #clean(more = 0): Promise<Seen[]> {
    const now = this.clock.now()
    const { maxAgeMs = Infinity } = this.options
    const seen = (await this.#seen()).toSorted((a, b) => a.usedAt - b.usedAt)
    let total = seen.reduce((sum, { size }) => sum + size, more)
    const kept: Seen[] = []
    for (const file of seen) {
      const isUnfinished = file.name.endsWith(unfinished)
      const oldest = now - (isUnfinished ? unfinishedMs : maxAgeMs)
      const isTooMuch = !isUnfinished && total > this.limitBytes
      if (isTooMuch || file.usedAt < oldest) {
        total -= file.size
        await rm(this.#path(file.name), { force: true })
      } else if (!isUnfinished) kept.push(file)
    }
    return kept
  }

  /** Our files; others in the folder stay as they are. */
  async #seen(): Promise<Seen[]> {
    const names = await readdir(this.options.folder)
    const own = names.filter((name) => /^[0-9a-f]{40}\.state(\.[0-9a-f]{12}\.tmp)?$/.test(name))
    const all = own.map(async (name) => {
      const found = await stat(this.#path(name)).catch(() => undefined)
      return found?.isFile() === true ? [{ name, size: found.size, usedAt: found.mtimeMs }] : []
    })
    return (await Promise.all(all)).flat()
  }

  async #attempt<T>(what: string, work: () => Promise<T>): Promise<T | undefined> {
    try {
      return await work()
    } catch (error) {
      const { folder } = this.options
      // Another process has removed it.
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
      const reason = error instanceof Error ? error.message : String(error)
      this.logger.warn({ folder, reason }, `saved states in ${folder}: ${what}: ${reason}`)
      return undefined
    }
  }
}

/** Follows from all that makes a state what it is. */
function nameOf({ key, scope, partial, tokens }: StateHead): string {
  const hash = createHash('sha256').update(JSON.stringify([key, scope, partial]))
  hash.update(Int32Array.from(tokens))
  return `${hash.digest('hex').slice(0, 40)}${ending}`
}
