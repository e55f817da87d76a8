import { closeSync, fsyncSync, openSync, renameSync, rmSync, writeSync } from 'node:fs'
import { cleanFolder } from './clean-folder.js'
import { listFolder } from './list-folder.js'
import { bytesOf, readState } from './state-bytes.js'
import type { StateTask, TouchTask, WriteTask } from './state-task.js'

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
  }
}

function touch({ memory }: TouchTask): void {
  const bytes = new Uint8Array(memory)
  for (let at = 0; at < bytes.byteLength; at += pageBytes) bytes[at] = 0
}

function write({ path, temporary, head, data, secret }: WriteTask): void {
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
