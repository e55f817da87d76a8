import { randomUUID } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, open, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { CllmError, entryOf } from '@cllm/core'
import { isUnderWay, newestFirst, outputIds } from './batch-objects.js'
import type { BatchObject, FileObject, Kept } from './batch-objects.js'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { Turns } from '../../routes/define-protocol.js'
import { rethrow, splitLines } from './batch-store.js'
import type { BatchKind as Kind, BatchStore, LinePlace, Stored, PlacedLine } from './batch-store.js'

/** The size of the pieces in which a file is read. */
const pieceBytes = 65_536
/** The most records that are read at once, as each takes a file descriptor, and there may be thousands. */
const filesAtOnce = 64
const wellFormed = /^(file-|batch_)[0-9a-f]{32}$/

/**
 * Files and batches in a folder that only its owner can read. Each has a record in JSON, which is replaced as a
 * whole; the lines of a file are beside it, and are only appended to.
 */
export class BatchFolder implements BatchStore {
  #isMade = false
  /** The writes by id, so that no change is lost. */
  readonly #turns = new Turns()
  /** Listed files and ended batches, as thousands take long to read; only {@link put} changes them. */
  readonly #listed = new Map<string, Promise<Stored<Kind> | undefined>>()
  /** Files that may end with an incomplete line. */
  readonly #torn = new Set<string>()

  constructor(private readonly folder: string) {}

  /** Stores a new file. */
  async create(kept: Kept<FileObject>, content: Uint8Array): Promise<void> {
    await this.#make()
    const { id } = kept.object
    try {
      await this.#checked(async () => {
        await writeFile(this.contentOf(id), content, { mode: 0o600, flush: true })
      })
      await this.put('files', kept)
    } catch (error) {
      // Nobody knows the id, so nobody would remove what has been written.
      await this.remove(id).catch(() => {})
      throw error
    }
  }

  /**
   * Adds a line to a file. A line that could only be written in part is removed before the next one.
   *
   * @param isHeld - whether this process may still write, as it may have been suspended
   */
  async append(file: string, line: object, isHeld: () => boolean = () => true): Promise<void> {
    const ensureHeld = (): void => {
      if (!isHeld()) throw new Error('another server has the batches')
    }
    await this.#turns.take(file, async () => {
      ensureHeld()
      if (this.#torn.has(file)) await this.mend(file)
      this.#torn.add(file)
      await this.#checked(async () => {
        const lines = await open(this.contentOf(file), 'a+', 0o600)
        try {
          // Right before the write begins, as another process could take over while the file is opened.
          ensureHeld()
          await lines.appendFile(`${JSON.stringify(line)}\n`)
        } finally {
          await lines.close()
        }
      })
      this.#torn.delete(file)
    })
  }

  async put<K extends Kind>(kind: K, kept: Stored<K>): Promise<void> {
    await this.#turns.take(kept.object.id, async () => await this.#write(kind, kept))
  }

  /** The record of a file or a batch, or undefined. */
  async get<K extends Kind>(kind: K, id: string): Promise<Stored<K> | undefined> {
    if (!wellFormed.test(id)) return undefined
    try {
      const path = await checkedFile(this.#headOf(kind, id)).catch(ifMissing)
      const found = path && (await readFile(path, 'utf8').catch(ifMissing))
      if (found !== undefined) {
        const kept = JSON.parse(found) as Stored<K> | null
        if (kept?.object?.id !== id) throw new Error('it is no record of this id')
        if (!isUnderWay(kept.object as BatchObject)) return kept
        const cancelled = await readFile(this.#headOf(kind, id, 'cancel'), 'utf8').catch(ifMissing)
        const more = JSON.parse(cancelled ?? '{}') as object
        return { ...kept, object: { ...kept.object, ...more } }
      }
      if (this.#isMade) await this.#checked(async () => await stat(join(this.folder, kind)))
      return undefined
    } catch (error) {
      if (CllmError.isInstance(error)) throw error
      throw new CllmError('internal', `${this.#headOf(kind, id)} cannot be read`, { cause: error })
    }
  }

  /** All records that are not damaged, the newest first. */
  async list<K extends Kind>(kind: K, onDamaged?: (error: Error) => void): Promise<Stored<K>[]> {
    await this.#make()
    const names = await this.#checked(async () => await readdir(join(this.folder, kind)))
    const ids = names.flatMap((name) => (name.endsWith('.json') ? [name.slice(0, -5)] : []))
    const read = async (id: string) => {
      const reading = entryOf(this.#listed, id, async () => await this.get(kind, id))
      const kept = await reading.catch((error: Error) => {
        this.#listed.delete(id)
        if (!isDamage(error)) throw error
        onDamaged?.(error)
      })
      if (kept && isUnderWay(kept.object as BatchObject)) this.#listed.delete(id)
      return kept
    }
    const all: (Stored<Kind> | void)[] = []
    for (let at = 0; at < ids.length; at += filesAtOnce) {
      all.push(...(await Promise.all(ids.slice(at, at + filesAtOnce).map(read))))
    }
    return newestFirst((all as Stored<K>[]).filter((kept) => kept !== undefined))
  }

  async update(id: string, change: (batch: BatchObject) => Partial<BatchObject> | undefined) {
    return await this.#turns.take(id, async () => {
      const kept = await this.get('batches', id)
      const changed = kept && change(kept.object)
      if (kept === undefined || changed === undefined) return kept
      // In a file of its own, which no other server's change of the record at this time undoes.
      if (changed.status === 'cancelling')
        await this.#replace(this.#headOf('batches', id, 'cancel'), changed)
      else await this.#write('batches', { ...kept, object: { ...kept.object, ...changed } })
      return await this.get('batches', id)
    })
  }

  async remove(id: string, isWhole = true): Promise<void> {
    this.#listed.delete(id)
    await rm(this.#headOf(id.startsWith('batch_') ? 'batches' : 'files', id), { force: true })
    await rm(this.#headOf('batches', id, 'cancel'), { force: true })
    if (isWhole) await rm(this.contentOf(id), { force: true })
  }

  /**
   * Removes contents without a record, and half records, which crashes have left. Contents of unfinished batches stay,
   * as their records are written at the end.
   *
   * @param before - a time in milliseconds; newer contents stay, as their upload may be in progress
   */
  async sweep(before: number): Promise<void> {
    const batches = (await this.list('batches', rethrow)).map(({ object }) => object)
    const filesOf = ({ id, input_file_id: input }: BatchObject) => [
      input,
      ...Object.values(outputIds(id)),
    ]
    const used = new Set(batches.filter(isUnderWay).flatMap(filesOf))
    for (const kind of ['files', 'batches']) {
      const names = new Set(await readdir(join(this.folder, kind)))
      for (const name of names) {
        const [id = ''] = name.split('.')
        const isHalf = name.endsWith('.new')
        const isNeeded = kind === 'batches' || names.has(`${id}.json`) || used.has(id)
        if (!wellFormed.test(id) || (isNeeded && !isHalf)) continue
        const path = join(this.folder, kind, name)
        const { mtimeMs } = await stat(path)
        if (mtimeMs < before) await rm(path, { force: true })
      }
    }
  }

  /** The path of a file's content. */
  contentOf(id: string): string {
    return join(this.folder, 'files', `${id}.jsonl`)
  }

  content(id: string): Readable {
    return Readable.from(this.#bytes(id), { objectMode: false })
  }

  /** The size of a file's content. */
  async sizeOf(id: string): Promise<number> {
    const found = await stat(this.contentOf(id)).catch(ifMissing)
    if (found?.isFile()) return found.size
    throw new CllmError('not_found', `The content of the file "${id}" is gone`)
  }

  /** The lines of a file, with their numbers from 1; empty lines are left out. */
  async *lines(id: string): AsyncGenerator<PlacedLine> {
    yield* splitLines(this.#bytes(id))
  }

  async textOf(id: string, { at, bytes }: LinePlace): Promise<string> {
    return await text(this.#bytes(id, { start: at, end: at + bytes - 1 }))
  }

  async *#bytes(id: string, place = {}): AsyncGenerator<Buffer> {
    yield* createReadStream(await checkedFile(this.contentOf(id)), place)
  }

  /**
   * Removes an incomplete last line, which a crash or a full disk has left, and waits until a power cut would lose
   * none of the others. False if there is no file.
   */
  async mend(id: string): Promise<boolean> {
    const file = await open(this.contentOf(id), 'r+').catch(ifMissing)
    if (file === undefined) return false
    try {
      const { size } = await file.stat()
      const end = await endOfLines(file, size)
      if (end < size) await file.truncate(end)
      await file.sync()
      return true
    } finally {
      await file.close()
    }
  }

  async #write<K extends Kind>(kind: K, kept: Stored<K>): Promise<void> {
    await this.#make()
    await this.#replace(this.#headOf(kind, kept.object.id), kept)
    this.#listed.delete(kept.object.id)
  }

  async #replace(path: string, content: object): Promise<void> {
    // Another server may replace the same file at this time.
    const part = `${path}.${randomUUID()}.new`
    try {
      await this.#checked(async () => {
        await writeFile(part, JSON.stringify(content), { mode: 0o600, flush: true })
        await rename(part, path)
      })
    } finally {
      await rm(part, { force: true })
    }
  }

  /** @throws `storage_failed` if the disk fails or the folder was removed: a new one would hide that all is lost */
  async #checked<T>(work: () => T | Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (cause) {
      const { code, errno } = cause as NodeJS.ErrnoException
      if (errno === undefined) throw cause
      const isGone = code === 'ENOENT'
      const what = isGone ? 'was removed while the server runs; start it anew' : `fails: ${code}`
      throw new CllmError('storage_failed', `The folder for batches ${what}`, { cause })
    }
  }

  #headOf(kind: Kind, id: string, ending = 'json'): string {
    return join(this.folder, kind, `${id}.${ending}`)
  }

  async #make(): Promise<void> {
    if (this.#isMade) return
    for (const kind of ['files', 'batches']) {
      await mkdir(join(this.folder, kind), { recursive: true, mode: 0o700 })
    }
    this.#isMade = true
  }
}

/** Whether an error means a damaged file, and not a failure of the file system. */
const isDamage = ({ cause }: Error): boolean =>
  cause instanceof Error && (cause as NodeJS.ErrnoException).errno === undefined

/** Returns the path if it is a regular file: reading a pipe would never end. */
async function checkedFile(path: string): Promise<string> {
  if ((await stat(path)).isFile()) return path
  throw new Error('it is no file')
}

/** The position behind the last `\n` of a file of `size` bytes, found from its end. */
async function endOfLines(file: FileHandle, size: number): Promise<number> {
  const piece = Buffer.alloc(Math.min(size, pieceBytes))
  for (let end = size; end > 0;) {
    const begin = Math.max(0, end - piece.length)
    const { bytesRead } = await file.read(piece, 0, end - begin, begin)
    const at = piece.lastIndexOf('\n', bytesRead - 1)
    if (bytesRead > 0 && at >= 0) return begin + at + 1
    end = begin
  }
  return 0
}

/** Turns the error of a missing file into undefined; throws others. */
function ifMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}
