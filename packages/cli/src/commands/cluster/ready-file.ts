import { rmSync, writeFileSync } from 'node:fs'
import { CllmError } from '@cllm/core'

/** Milliseconds between two writes. */
const everyMs = 5000

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
    const reason = cause instanceof Error ? cause.message : String(cause)
    const message = `--ready-file: the file cannot be written: ${reason}`
    throw new CllmError('invalid_configuration', message, { cause })
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
