import { randomUUID } from 'node:crypto'
import { mkdirSync, readdirSync, rmSync, unlinkSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { attempt } from '@cllm/core'

/** A folder in memory that a server's engines share: the states of models that are unloaded for others, and encodings. */
export interface MemoryFolder {
  readonly folder: string
  /** Removes the folder with its content; nothing is written from then on. */
  remove(): void
}

/** Where Linux has files in memory. */
const memoryFolder = '/dev/shm'
const prefix = 'cllm-states-'

/** The socket beside a folder: the process that made the folder listens there, visible to other containers, too. */
const socketOf = (folder: string): string => `${folder}.sock`

/** Makes a folder; undefined where the operating system has no files in memory. */
export function openMemoryFolder(inMemory = memoryFolder): MemoryFolder | undefined {
  const folder = join(inMemory, `${prefix}${randomUUID()}`)
  // If listening fails, others take the folder for abandoned: no more than its states is lost.
  const alive = createServer((socket) => socket.destroy()).on('error', () => {})
  const close = (): void => {
    alive.close()
    remove(folder)
  }
  try {
    for (const name of readdirSync(inMemory)) {
      if (name.startsWith(prefix) && !name.endsWith('.sock')) removeLeft(join(inMemory, name))
    }
    alive.listen(socketOf(folder)).unref()
    mkdirSync(folder, { mode: 0o700 })
    return { folder, remove: close }
  } catch {
    close()
    return undefined
  }
}

/** Removes the folder of a process that died. */
function removeLeft(folder: string): void {
  const socket = connect(socketOf(folder), () => socket.destroy())
  socket.on('error', ({ code }: NodeJS.ErrnoException) => {
    if (code === 'ECONNREFUSED' || code === 'ENOENT') remove(folder)
  })
}

/** Removes a folder and its socket; those of another user stay: their owner removes them. */
function remove(folder: string): void {
  attempt(() => rmSync(folder, { recursive: true, force: true }))
  // Not with `rmSync`, which looks at it first: Node 20 takes what was last looked at for a part of the paths of modules,
  // and finds none that is loaded after a socket.
  attempt(() => unlinkSync(socketOf(folder)))
}
