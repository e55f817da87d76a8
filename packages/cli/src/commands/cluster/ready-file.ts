import { rmSync, writeFileSync } from 'node:fs'
import { CllmError } from '@cllm/core'

/** Milliseconds between two writes. */
const everyMs = 5000

/**
 * Removes the file that a worker left which was killed: probes would take this one for ready while it loads its model.
 *
 * @throws `invalid_configuration` where it cannot be removed
 */
export function removeStale(file: string): void {
  try {
    rmSync(file, { force: true })
  } catch (cause) {
    throw unusable('removed', cause)
  }
}

/**
 * Keeps a file for probes: it is there from now on, and old if this process stands still.
 *
 * @returns removes it
 * @throws `invalid_configuration` where it cannot be written
 */
export function keepReadyFile(file: string): () => void {
  const write = () => writeFileSync(file, '')
  try {
    write()
  } catch (cause) {
    throw unusable('written', cause)
  }
  const timer = setInterval(() => {
    try {
      write()
    } catch {
      // It grows old, which is what it is for.
    }
  }, everyMs)
  timer.unref()
  return () => {
    clearInterval(timer)
    rmSync(file, { force: true })
  }
}

function unusable(done: string, cause: unknown): CllmError {
  const reason = cause instanceof Error ? cause.message : String(cause)
  const message = `--ready-file: the file cannot be ${done}: ${reason}`
  return new CllmError('invalid_configuration', message, { cause })
}
