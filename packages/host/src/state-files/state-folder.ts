import { existsSync } from 'node:fs'
import { join } from 'node:path'
import {
  within,
  type Clock,
  type StateFile,
  type FoundState,
  type SharedStateFiles,
  type StateHead,
  type WrittenState,
  type Logger,
  messageOf,
} from '@cllm/core'
import { misnamed, readStateFile, secretOf, stateName, writeStateFile } from './state-file.js'
import { changed, type ListProblem } from './thread/state-jobs.js'
import { readThread, type StateThread, writeThread } from './thread/state-thread.js'

/** Time limits in milliseconds: for listing a folder, and the least and the most for reading a file. */
const listMs = 10_000
const leastReadMs = 5000
const mostReadMs = 60_000
/** Bytes for each of which a file's time limit grows by a millisecond. */
const leastReadRate = 50_000

/** A folder of more files is not listed for each write, which would take long, but after so many milliseconds. */
const [manyFiles, countedMs] = [256, 10_000]
/** Milliseconds until the same warning is logged again. */
const quietMs = 60_000
/** Most different warnings that are remembered. */
const mostSaid = 100

/** Options of {@link StateFolder}. */
export interface StateFolderOptions {
  readonly folder: string
  /** Most bytes of all files. */
  readonly limitBytes: number
  /** A file that nobody used for this long is removed; default: never. */
  readonly maxAgeMs?: number
  /** Words that the files are encrypted with; files with another key are ignored. Default: they are not encrypted. */
  readonly key?: string
  /** Whether clients wait for writes; default: nobody does, and they leave the processors to others. */
  readonly isUrgent?: boolean
  /** Whether new files are refused on a full disk; default: as in a cache, old files are removed for them. */
  readonly isKept?: boolean
  /** See `StateFiles`. If set, files are written only while the folder exists. */
  readonly whenClosing?: boolean
}

/**
 * States in a folder, one file each, which only its owner can read. Several processes may use one folder: a file is
 * written under a temporary name and then renamed, its name is a hash of what identifies the state, and a missing file
 * counts as never written. Separate threads do all of that.
 */
export class StateFolder implements SharedStateFiles {
  readonly limitBytes: number
  readonly whenClosing: boolean
  /** The key of encrypted files. */
  protected readonly secret: Uint8Array | undefined
  readonly #writer: StateThread
  /** Calls that exceeded their time limit and still run. */
  readonly #late = new Set<Promise<unknown>>()
  /** The bytes of many files when they were last listed, with those written since, and until when that counts. */
  #counted = { bytes: 0, until: -Infinity }
  /** When each warning was last logged. */
  readonly #said = new Map<string, number>()

  constructor(
    private readonly options: StateFolderOptions,
    protected readonly clock: Clock,
    protected readonly logger: Logger,
  ) {
    this.limitBytes = options.limitBytes
    this.whenClosing = options.whenClosing === true
    this.#writer = options.isUrgent === true ? readThread : writeThread
    this.secret = secretOf(options.key)
  }

  /** As `StateFiles` says. */
  async list(key: string, onLate?: (files: readonly StateFile[]) => void): Promise<StateFile[]> {
    let listing: Promise<StateFile[]> | undefined
    const begin = () => (listing = this.#list(key))
    const files = await this.#attempt('cannot be read', async () => {
      try {
        return await this.#inTime(begin, listMs)
      } catch (error) {
        if (error instanceof Silence) {
          void (listing ?? this.#back().then(begin)).then(onLate).catch(() => {})
        }
        throw error
      }
    })
    return files ?? []
  }

  async read(
    file: StateFile,
    allocate: (bytes: number) => Uint8Array | undefined,
    onLate?: (back: Promise<void>) => void,
  ): Promise<Uint8Array | undefined> {
    const { name, bytes } = file
    return await this.#attempt(`${name} is ignored`, async () => {
      try {
        const limit = leastReadMs + bytes / leastReadRate
        return await this.#inTime(() => this.#read(file, allocate), limit)
      } catch (error) {
        const code = codeOf(error)
        // Another process has removed it.
        if (code === 'ENOENT') return undefined
        if (error instanceof Silence) onLate?.(this.#back())
        // It is damaged, and would be read in vain after each start. Nobody waits for the removal.
        else if (code === undefined) void this.remove(file)
        throw error
      }
    })
  }

  async find(head: StateHead): Promise<FoundState | undefined> {
    const name = stateName(head, this.secret)
    const run = () => readThread.run('read', this.#path(name), this.secret, 'new')
    try {
      const found = await this.#inTime(run, leastReadMs)
      if (stateName(found, this.secret) !== name) throw new Error(misnamed)
      return { name, ...found } as FoundState
    } catch (error) {
      const code = codeOf(error)
      if (code === 'ENOENT') return undefined
      this.#warn(`${name} is ignored`, messageOf(error), code)
      if (code !== undefined) throw error
      return undefined
    }
  }

  /** As `SharedStates` says. */
  async write(head: StateHead, data: Uint8Array, instead?: FoundState) {
    if (this.whenClosing && !existsSync(this.options.folder)) return undefined
    const name = stateName(head, this.secret)
    const writing = async (removed: readonly string[]) => {
      // An earlier version that was removed to make room is not one that another process has changed.
      const version = removed.includes(name) ? undefined : instead?.version
      await writeStateFile(this.#path(name), head, data, this.secret, this.#writer, version)
    }
    return await this.#attempt('cannot be written to', async (): Promise<WrittenState> => {
      const { byteLength } = data
      const most = this.limitBytes
      if (byteLength > most) throw new Error(`expected ${most} bytes at most, got ${byteLength}`)
      const limits = this.#limits(byteLength)
      const clean = async (to = most) =>
        await this.#writer.run('clean', { ...limits, limitBytes: to })
      const gone: string[] = []
      const isCounted = this.clock.now() < this.#counted.until
      if (!isCounted || this.#counted.bytes + byteLength > most) {
        const before = this.#counted
        const { names, bytes, removed } = await clean()
        gone.push(...removed)
        const until = names.length > manyFiles ? this.clock.now() + countedMs : -Infinity
        // Another write may have counted meanwhile, and added its file.
        if (this.#counted === before) this.#counted = { bytes, until }
      }
      this.#counted.bytes += byteLength
      try {
        await writing(gone)
      } catch (error) {
        // A full disk is a limit of a cache, too: the least recently used files are removed for the new one.
        const mayGo = this.options.isKept !== true && codeOf(error) === 'ENOSPC'
        if (!mayGo) throw error
        const { bytes: all } = await clean()
        if (all < byteLength) throw error
        const more = await clean(all)
        gone.push(...more.removed)
        this.#warn('those longest unused are removed', 'the disk is full')
        await writing(gone)
      }
      return { ...head, name, bytes: byteLength, removed: gone }
    })
  }

  async touch({ name }: StateFile): Promise<void> {
    await readThread.run('use', this.#path(name), this.clock.wall()).catch(() => {})
  }

  async remove({ name }: StateFile): Promise<void> {
    await this.#writer.run('remove', this.#path(name)).catch(() => {})
  }

  async #list(key: string): Promise<StateFile[]> {
    const { files, problems } = await readThread.run('list', key, this.#limits(0), this.secret)
    for (const problem of problems) this.#warn(whatOf(problem), problem.reason)
    return [...files]
  }

  async #read({ name, bytes }: StateFile, allocate: (bytes: number) => Uint8Array | undefined) {
    const data = allocate(bytes)?.subarray(0, bytes)
    if (data === undefined) return undefined
    const head = await readStateFile(this.#path(name), data, this.secret)
    if (stateName(head, this.secret) !== name) throw new Error(misnamed)
    return data
  }

  #path(name: string): string {
    return join(this.options.folder, name)
  }

  #limits(more: number) {
    const { folder, limitBytes, maxAgeMs = Infinity } = this.options
    return { folder, limitBytes, maxAgeMs, more, now: this.clock.wall() }
  }

  /**
   * Runs work that a request waits for. A disk, or a server, that does not answer in time counts as empty, and is not
   * asked again until it does.
   */
  async #inTime<T>(begin: () => Promise<T>, ms: number): Promise<T> {
    if (this.#late.size > 0) throw new Silence(0)
    const work = begin()
    const limit = Math.min(ms, mostReadMs)
    return await within(this.clock, limit, work, () => {
      this.#late.add(work)
      const isBack = () => void this.#late.delete(work)
      work.then(isBack, isBack)
      throw new Silence(limit)
    })
  }

  /** Resolves when all late calls have ended. */
  async #back(): Promise<void> {
    await Promise.allSettled(this.#late)
  }

  async #attempt<T>(what: string, work: () => Promise<T>): Promise<T | undefined> {
    try {
      return await work()
    } catch (error) {
      if (codeOf(error) !== changed) this.#warn(what, messageOf(error), codeOf(error))
      return undefined
    }
  }

  /** @param kind - the common part of reasons that each name a file */
  #warn(what: string, reason: string, kind = reason): void {
    const { folder } = this.options
    const saying = `${what}: ${kind}`
    const now = this.clock.now()
    if (now - (this.#said.get(saying) ?? -Infinity) < quietMs) return
    if (this.#said.size >= mostSaid) this.#said.clear()
    this.#said.set(saying, now)
    this.logger.warn({ folder, reason }, `saved states in ${folder}: ${what}: ${reason}`)
  }
}

const codeOf = (error: unknown): string | undefined => (error as NodeJS.ErrnoException).code

const whatOf = ({ count, name }: ListProblem): string =>
  count === 1 ? `${name} is ignored` : `${count} files are ignored, such as ${name}`

/** There was no answer in time. */
class Silence extends Error {
  readonly code = 'ETIMEDOUT'

  constructor(ms: number) {
    super(`no answer ${ms > 0 ? `for ${ms / 1000} s` : 'yet'}`)
  }
}
