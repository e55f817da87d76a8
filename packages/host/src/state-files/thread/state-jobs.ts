import {
  closeSync,
  fsyncSync,
  openSync,
  renameSync,
  rmSync,
  utimesSync,
  writeSync,
  mkdirSync,
  readdirSync,
  statSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { randomBytes } from 'node:crypto'
import type { StateFile } from '@cllm/core'
import { bytesOf, readState, versionOf } from './state-bytes.js'

/** The files of a folder. */
export interface Listed {
  /** In order of use, the most recent last. */
  readonly files: readonly StateFile[]
  /** Why other files cannot be used, and how many for each reason. */
  readonly problems: readonly ListProblem[]
}

/** Files that cannot be used. */
export interface ListProblem {
  readonly reason: string
  readonly count: number
  /** The name of one of them. */
  readonly name: string
}

const pageBytes = 4096

/** The error code of a write when another process has replaced the file before. */
export const changed = 'CHANGED'

/**
 * The jobs of a `StateThread`, which waits for the disk meanwhile. Each throws an Error that says why it failed. A
 * `secret` is the key of encrypted files: 32 bytes.
 */
export const stateJobs = {
  read: readState,
  write,
  list: listFolder,
  clean: cleanFolder,
  sweep: removeUnfinished,

  /** Removes a file; one that is gone already is no failure. */
  remove(path: string): void {
    rmSync(path, { force: true })
  },

  /** Sets the times of a file, `now` in milliseconds since the epoch. */
  use(path: string, now: number): void {
    try {
      utimesSync(path, now / 1000, now / 1000)
    } catch {
      // another process has removed it
    }
  },

  /** Writes to each page of new memory, so that the operating system finds and clears it now. */
  touch(memory: SharedArrayBuffer): void {
    const bytes = new Uint8Array(memory)
    for (let at = 0; at < bytes.byteLength; at += pageBytes) bytes[at] = 0
  },
}

/**
 * Writes a file under a temporary name, and renames it. Makes the folder if need be.
 * @param head - comes before the data
 * @param data - copied to the thread unless its memory is shared
 * @param instead - the version of the file that it replaces: fails if another process has replaced that, except in the
 *   microseconds between this check and the renaming
 */
function write(
  path: string,
  head: Uint8Array,
  data: Uint8Array,
  secret?: Uint8Array,
  instead?: string,
): void {
  makeFolder(dirname(path))
  // Nobody else uses this name.
  const temporary = `${path}.${randomBytes(6).toString('hex')}${unfinished}`
  const file = openSync(temporary, 'wx', 0o600)
  try {
    try {
      for (const chunk of bytesOf(head, data, secret)) writeFully(file, chunk)
      fsyncSync(file)
    } finally {
      closeSync(file)
    }
    const found = instead === undefined ? undefined : statSync(path, { throwIfNoEntry: false })
    if (instead !== undefined && (found === undefined || versionOf(found) !== instead)) {
      throw Object.assign(new Error('another process has changed it'), { code: changed })
    }
    renameSync(temporary, path)
  } catch (error) {
    rmSync(temporary, { force: true })
    throw error
  }
}

function writeFully(file: number, bytes: Uint8Array): void {
  for (let done = 0; done < bytes.byteLength;) {
    done += writeSync(file, bytes, done, bytes.byteLength - done)
  }
}

/** Cleans the folder, and reads the heads of the files of this key that are left. */
function listFolder(key: string, limits: FolderLimits, secret?: Uint8Array): Listed {
  const files: StateFile[] = []
  const problems = new Map<string, ListProblem>()
  for (const name of cleanFolder(limits).names) {
    try {
      const head = readState(join(limits.folder, name), secret)
      if (head.key === key) files.push({ ...head, name })
    } catch (error) {
      const { message: reason, code } = error as NodeJS.ErrnoException
      // Another process has removed it.
      if (code === 'ENOENT') continue
      problems.set(reason, { name, reason, count: (problems.get(reason)?.count ?? 0) + 1 })
    }
  }
  return { files, problems: [...problems.values()] }
}

/** The ending of a file's name. */
export const ending = '.state'
/** A further ending while the file is written. */
const unfinished = '.tmp'
const ours = /^[0-9a-f]{40}\.state(\.[0-9a-f]{12}\.tmp)?$/
const left = /\.[0-9a-f]{12}\.tmp$/
/** Milliseconds after which the unfinished file of a writer that died is removed. */
const unfinishedMs = 3_600_000

/** The limits of a folder's content. */
interface FolderLimits {
  readonly folder: string
  /** Milliseconds since the epoch. */
  readonly now: number
  readonly limitBytes: number
  /** Bytes of a file that is about to be written. */
  readonly more: number
  readonly maxAgeMs: number
}

/** Files that are kept, the latest used last, and the bytes of all of them. */
interface Kept {
  readonly names: readonly string[]
  readonly bytes: number
  /** Names of the files that were removed. */
  readonly removed: readonly string[]
}

/** Makes a folder. One that is there already keeps its rights: it may be one of the user's. */
const makeFolder = (folder: string): void =>
  void mkdirSync(folder, { recursive: true, mode: 0o700 })

/**
 * Removes files that are too old, and the least recently used ones beyond the limit, with `more` bytes to come. Files
 * that are not ours stay. Makes the folder if need be.
 */
function cleanFolder({ folder, now, limitBytes, more, maxAgeMs }: FolderLimits): Kept {
  makeFolder(folder)
  const ourFiles = readdirSync(folder).flatMap((name) => {
    if (!ours.test(name)) return []
    // Another process may remove it meanwhile.
    const found = statSync(join(folder, name), { throwIfNoEntry: false })
    return found?.isFile() === true ? [{ name, size: found.size, usedAt: found.mtimeMs }] : []
  })
  const seen = ourFiles.sort((a, b) => a.usedAt - b.usedAt)
  let total = seen.reduce((sum, { size }) => sum + size, more)
  const names: string[] = []
  const removed: string[] = []
  for (const { name, size, usedAt } of seen) {
    const isUnfinished = name.endsWith(unfinished)
    const oldest = now - (isUnfinished ? unfinishedMs : maxAgeMs)
    const isTooMuch = !isUnfinished && total > limitBytes
    if ((isTooMuch || usedAt < oldest) && isRemoved(join(folder, name))) {
      total -= size
      removed.push(name)
    } else if (!isUnfinished) names.push(name)
  }
  return { names, bytes: total - more, removed }
}

/** Removes unfinished files that were last written an hour or more before the folder's newest file. */
function removeUnfinished(folder: string): void {
  const timed = readdirSync(folder).map((name) => {
    const path = join(folder, name)
    return { path, at: statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0 }
  })
  const now = timed.reduce((latest, { at }) => Math.max(latest, at), 0)
  for (const { path, at } of timed) {
    if (left.test(path) && at < now - unfinishedMs) isRemoved(path)
  }
}

/** Removes a file, if possible: a folder that cannot be written to can still be read. */
function isRemoved(path: string): boolean {
  try {
    rmSync(path, { force: true })
    return true
  } catch {
    return false
  }
}
