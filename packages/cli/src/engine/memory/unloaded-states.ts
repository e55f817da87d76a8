import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'

/** A folder in memory for the states of models that are unloaded for others. */
export interface UnloadedStates {
  readonly folder: string
  /** Removes it with all that is in it; nothing is written from then on. */
  remove(): void
}

/** Where Linux has files in memory. */
const memoryFolder = '/dev/shm'
const prefix = 'cllm-states-'

/** Makes the folder of this process; undefined where the operating system has no files in memory. */
export function openUnloadedStates(inMemory = memoryFolder): UnloadedStates | undefined {
  try {
    for (const name of readdirSync(inMemory)) {
      const [, pid] = /^cllm-states-(\d+)-/.exec(name) ?? []
      if (pid !== undefined && !isRunning(Number(pid))) remove(join(inMemory, name))
    }
    const folder = mkdtempSync(join(inMemory, `${prefix}${process.pid}-`))
    return { folder, remove: () => remove(folder) }
  } catch {
    return undefined
  }
}

/** Whether there is a process, also of another user. */
function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** That of another user stays. */
function remove(folder: string): void {
  try {
    rmSync(folder, { recursive: true, force: true })
  } catch {
    // its owner removes it
  }
}
