import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { withLock } from '../../models/fetch/with-lock.js'
import type { CommandIo } from '../command-io.js'

/** Runs `action` while no other process changes what was built in `folder`, which is created. */
export async function withNativeLock<T>(
  folder: string,
  { signal, stderr }: CommandIo,
  action: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  await mkdir(folder, { recursive: true })
  const onWait = () => void stderr.write('another process is building: waiting for it\n')
  return await withLock(join(folder, 'build'), { signal, onWait }, action)
}
