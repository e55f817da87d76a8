import { readdir, rm, rmdir } from 'node:fs/promises'

/** Keeps an interrupted download from Hugging Face, to resume it. */
export const resumeFolder = (target: string): string => `${target}.resume`

/**
 * Fetches into a folder that is removed at the end; what was interrupted stays in it, to be continued.
 *
 * @param fetching - moves away what it keeps
 */
export async function inResumeFolder<T>(
  directory: string,
  signal: AbortSignal,
  fetching: () => Promise<T>,
): Promise<T> {
  try {
    const fetched = await fetching()
    await rm(directory, { recursive: true, force: true })
    return fetched
  } catch (error) {
    const files = await readdir(directory).catch(() => [])
    // a whole file that was refused is of no use: a part of one is
    const isPartial = files.some((file) => !file.endsWith('.gguf'))
    if (isPartial || signal.aborted) await rmdir(directory).catch(() => {})
    else await rm(directory, { recursive: true, force: true })
    throw error
  }
}
