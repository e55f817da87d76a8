import { closeSync, fsyncSync, openSync, renameSync, rmSync, utimesSync, writeSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { StateFile } from '@cllm/core'
import { cleanFolder, makeFolder, removeUnfinished } from './clean-folder.js'
import { bytesOf, readState } from './state-bytes.js'
import type {
  Listed,
  ListProblem,
  ListTask,
  StateTask,
  TouchTask,
  UseTask,
  WriteTask,
} from './state-task.js'

const pageBytes = 4096

/**
 * Does a task, and waits for the disk meanwhile.
 * @throws Error that says why it failed
 */
export function runTask(task: StateTask): unknown {
  switch (task.type) {
    case 'write':
      return write(task)
    case 'read':
      return readState(task.path, task.secret, task.data)
    case 'list':
      return listFolder(task)
    case 'clean':
      return cleanFolder(task)
    case 'touch':
      return touch(task)
    case 'sweep':
      return removeUnfinished(task.folder)
    case 'remove':
      return rmSync(task.path, { force: true })
    case 'use':
      return use(task)
  }
}

function use({ path, now }: UseTask): void {
  try {
    utimesSync(path, now / 1000, now / 1000)
  } catch {
    // another process has removed it
  }
}

function touch({ memory }: TouchTask): void {
  const bytes = new Uint8Array(memory)
  for (let at = 0; at < bytes.byteLength; at += pageBytes) bytes[at] = 0
}

function write({ path, temporary, head, data, secret }: WriteTask): void {
  makeFolder(dirname(path))
  const file = openSync(temporary, 'wx', 0o600)
  let isWritten = false
  try {
    for (const chunk of bytesOf(head, data, secret)) writeFully(file, chunk)
    fsyncSync(file)
    isWritten = true
  } finally {
    closeSync(file)
    if (!isWritten) rmSync(temporary, { force: true })
  }
  try {
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

/** Reads the heads of what {@link cleanFolder} leaves. */
function listFolder({ key, secret, ...task }: ListTask): Listed {
  const files: StateFile[] = []
  const problems = new Map<string, ListProblem>()
  for (const name of cleanFolder(task).names) {
    try {
      const head = readState(join(task.folder, name), secret)
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
