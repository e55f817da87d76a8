import { mkdirSync, readdirSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'

/** What the name of a file ends with. */
export const ending = '.state'
/** What it ends with besides while it is written. */
export const unfinished = '.tmp'
const ours = /^[0-9a-f]{40}\.state(\.[0-9a-f]{12}\.tmp)?$/
const left = /\.[0-9a-f]{12}\.tmp$/
/** What a writer that died has left is removed after this long. */
const unfinishedMs = 3_600_000

/** What a folder may hold. */
export interface FolderLimits {
  readonly folder: string
  /** Milliseconds since the epoch. */
  readonly now: number
  readonly limitBytes: number
  /** Bytes of a file that is to come. */
  readonly more: number
  readonly maxAgeMs: number
}

/** Files that are kept, the latest used last, and the bytes of all of them. */
export interface Kept {
  readonly names: readonly string[]
  readonly bytes: number
  /** Names of those that are not kept. */
  readonly removed: readonly string[]
}

/** A file of ours. */
interface Seen {
  readonly name: string
  readonly size: number
  readonly usedAt: number
}

/** Makes a folder. One that is there already keeps its rights: it may be one of the user's. */
export const makeFolder = (folder: string): void =>
  void mkdirSync(folder, { recursive: true, mode: 0o700 })

/**
 * Removes what is too old, or too much with `more` bytes; what is not ours stays as it is. The folder is
 * made if need be.
 */
export function cleanFolder({ folder, now, limitBytes, more, maxAgeMs }: FolderLimits): Kept {
  makeFolder(folder)
  const seen = [...seenIn(folder)].sort((a, b) => a.usedAt - b.usedAt)
  let total = seen.reduce((sum, { size }) => sum + size, more)
  const names: string[] = []
  const removed: string[] = []
  for (const { name, size, usedAt } of seen) {
    const isUnfinished = name.endsWith(unfinished)
    const oldest = now - (isUnfinished ? unfinishedMs : maxAgeMs)
    const isTooMuch = !isUnfinished && total > limitBytes
    const isLeft = !isTooMuch && usedAt >= oldest
    if (!isLeft && isRemoved(join(folder, name))) {
      total -= size
      removed.push(name)
    } else if (!isUnfinished) names.push(name)
  }
  return { names, bytes: total - more, removed }
}

/** Removes what is left of files that nobody has written on for an hour when the latest one was written. */
export function removeUnfinished(folder: string): void {
  const timed = readdirSync(folder).map((name) => {
    const path = join(folder, name)
    return { path, at: statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0 }
  })
  const now = timed.reduce((latest, { at }) => Math.max(latest, at), 0)
  for (const { path, at } of timed) {
    if (left.test(path) && at < now - unfinishedMs) isRemoved(path)
  }
}

/** A folder that cannot be written to can be read all the same. */
function isRemoved(path: string): boolean {
  try {
    rmSync(path, { force: true })
    return true
  } catch {
    return false
  }
}

function* seenIn(folder: string): Iterable<Seen> {
  for (const name of readdirSync(folder)) {
    if (!ours.test(name)) continue
    // Another process may remove it meanwhile.
    const found = statSync(join(folder, name), { throwIfNoEntry: false })
    if (found?.isFile() === true) yield { name, size: found.size, usedAt: found.mtimeMs }
  }
}
