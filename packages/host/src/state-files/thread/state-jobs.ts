import { closeSync, fsyncSync, openSync, renameSync, rmSync, utimesSync, writeSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { StateFile } from '@cllm/core'
import { cleanFolder, type FolderLimits, makeFolder, removeUnfinished } from './clean-folder.js'
import { bytesOf, readState } from './state-bytes.js'

/** What a folder holds. */
export interface Listed {
  /** The latest used last. */
  readonly files: readonly StateFile[]
  /** Why others are none, and how many for each reason. */
  readonly problems: readonly ListProblem[]
}

/** Files that cannot be used. */
export interface ListProblem {
  readonly reason: string
  readonly count: number
  /** One of them. */
  readonly name: string
}

const pageBytes = 4096

/**
 * What a `StateThread` does, waiting for the disk meanwhile. Each throws an Error that says why it failed;
 * a `secret` is what may be needed to understand files: 32 bytes.
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
 * Writes a file in a folder that is made if need be, and renames it.
 * @param temporary - a name beside `path` that nobody else uses
 * @param parts - what comes before the data, and the data, which is copied unless its memory is shared
 */
function write(
  path: string,
  temporary: string,
  parts: { readonly head: Uint8Array; readonly data: Uint8Array },
  secret?: Uint8Array,
): void {
  makeFolder(dirname(path))
  const file = openSync(temporary, 'wx', 0o600)
  try {
    try {
      for (const chunk of bytesOf(parts.head, parts.data, secret)) writeFully(file, chunk)
      fsyncSync(file)
    } finally {
      closeSync(file)
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

/** Reads the heads of what {@link cleanFolder} leaves, but for files of another key. */
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
