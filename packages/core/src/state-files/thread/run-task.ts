import { closeSync, fsyncSync, openSync, readSync, renameSync, rmSync, writeSync } from 'node:fs'
import { crc32 } from 'node:zlib'
import type { ReadTask, StateTask, WriteTask } from './state-task.js'

/** Bytes that are read or written at once, and are still in the processor's cache for the checksum. */
const chunkBytes = 2 ** 20
const pageBytes = 4096
/** Of the checksum. */
export const sumBytes = 4

/**
 * Does a task, and waits for the disk meanwhile.
 * @throws Error that says why it failed
 */
export function runTask(task: StateTask): void {
  if (task.type === 'write') write(task)
  else if (task.type === 'read') read(task)
  else {
    const bytes = new Uint8Array(task.memory)
    for (let at = 0; at < bytes.byteLength; at += pageBytes) bytes[at] = 0
  }
}

function write({ path, temporary, head, data }: WriteTask): void {
  const file = openSync(temporary, 'wx', 0o600)
  let sum = 0
  let isWritten = false
  try {
    for (const part of [head, data]) {
      for (let from = 0; from < part.byteLength; from += chunkBytes) {
        const chunk = part.subarray(from, from + chunkBytes)
        sum = crc32(chunk, sum)
        writeFully(file, chunk)
      }
    }
    const end = Buffer.alloc(sumBytes)
    end.writeUInt32LE(sum)
    writeFully(file, end)
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

function read({ path, start, sum: before, data }: ReadTask): void {
  const file = openSync(path, 'r')
  try {
    let sum = before
    for (let from = 0; from < data.byteLength; from += chunkBytes) {
      const chunk = data.subarray(from, from + chunkBytes)
      readFully(file, chunk, start + from)
      sum = crc32(chunk, sum)
    }
    const end = Buffer.alloc(sumBytes)
    readFully(file, end, start + data.byteLength)
    if (sum !== end.readUInt32LE()) throw new Error('its checksum is wrong')
  } finally {
    closeSync(file)
  }
}

function writeFully(file: number, bytes: Uint8Array): void {
  for (let done = 0; done < bytes.byteLength;) {
    done += writeSync(file, bytes, done, bytes.byteLength - done)
  }
}

function readFully(file: number, into: Uint8Array, position: number): void {
  for (let done = 0; done < into.byteLength;) {
    const count = readSync(file, into, done, into.byteLength - done, position + done)
    if (count === 0) throw new Error('it is cut short')
    done += count
  }
}
