import { mkdirSync, openSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'
import { orInvalid } from '../config/messages.js'

const standardError = 2
/** Milliseconds until a pipe that is full is tried again. */
const patienceMs = 20

/** What {@link LogLines} writes with; the default is `fs.writeSync`. */
export type WriteBytes = (fd: number, bytes: Uint8Array) => number

/**
 * Where log lines go: each is written before `write` returns, so that none is missing after a crash. A line that
 * cannot be written, as on a full disk, is lost, and never an error: the log must not fail what it tells of.
 */
export class LogLines {
  /** Whether the last write failed; said once. */
  #isFailing = false
  /** Whether a part of a line stands at the end. */
  #isTorn = false

  constructor(
    private readonly fd: number = standardError,
    private readonly writeBytes: WriteBytes = writeSync,
  ) {}

  /**
   * Appends to a file; makes it and its folder.
   *
   * @throws `invalid_configuration` when it cannot be opened
   */
  static toFile(file: string): LogLines {
    const open = () => {
      mkdirSync(dirname(file), { recursive: true })
      return new LogLines(openSync(file, 'a'))
    }
    return orInvalid(open, (reason) => `the log file cannot be opened: ${reason}`)
  }

  write(line: string): void {
    let rest: Uint8Array = Buffer.from(this.#isTorn ? `\n${line}` : line)
    const { length } = rest
    while (rest.length > 0) {
      try {
        rest = rest.subarray(this.writeBytes(this.fd, rest))
      } catch (error) {
        const { code, message } = error as NodeJS.ErrnoException
        if (code === 'EAGAIN') Atomics.wait(pause, 0, 0, patienceMs)
        else {
          this.#isTorn ||= rest.length < length
          this.#fail(message)
          return
        }
      }
    }
    this.#isFailing = false
    this.#isTorn = false
  }

  #fail(reason: string): void {
    if (this.#isFailing) return
    this.#isFailing = true
    if (this.fd === standardError) return
    try {
      this.writeBytes(standardError, Buffer.from(`lines of the log are lost: ${reason}\n`))
    } catch {
      // Nobody can be told.
    }
  }
}

const pause = new Int32Array(new SharedArrayBuffer(4))
