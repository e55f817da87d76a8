import { rename as renameFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'

/** What {@link replaceFile} works with; the defaults are this machine's. */
export interface ReplaceFileOptions {
  readonly platform?: NodeJS.Platform
  readonly rename?: (from: string, to: string) => Promise<void>
  readonly delay?: (milliseconds: number) => Promise<unknown>
}

const inUse: ReadonlySet<string | undefined> = new Set(['EPERM', 'EACCES', 'EBUSY'])

/**
 * Moves a file to a place where another may be; whoever reads there has the old or the new one. Windows refuses
 * that for as long as a reader, or a virus scanner, has the old one open: there it is tried for two seconds.
 *
 * @throws what the file system says at the last attempt
 */
export async function replaceFile(
  from: string,
  to: string,
  { platform = process.platform, rename = renameFile, delay = sleep }: ReplaceFileOptions = {},
): Promise<void> {
  for (let attempts = platform === 'win32' ? 20 : 1; ; attempts--) {
    try {
      await rename(from, to)
      return
    } catch (error) {
      if (attempts <= 1 || !inUse.has((error as NodeJS.ErrnoException).code)) throw error
    }
    await delay(100)
  }
}
