import { mkdir, readdir, rm, lstat, readFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { createHash } from 'node:crypto'
import type { Logger, Recording, LearnedStore } from '@cllm/core'
import { type CacheFolderOptions, userFolder } from '../models/cache-folder.js'
import { writeWhole } from '../models/model-files.js'

/** How many recordings are kept. */
const most = 8

const name = /^crash-[\d-]+T[\d-]+Z\.json$/

/**
 * The default folder for recordings of crashes: `cllm/crashes` in the user's state folder
 * (`$XDG_STATE_HOME` or `~/.local/state`; `~/Library/Logs` on macOS; `%LOCALAPPDATA%` on Windows).
 */
export const crashFolder = (options: CacheFolderOptions): string =>
  join(userFolder(options, 'state'), 'crashes')

/** Writes recordings of crashes to a folder, which keeps the last eight. */
export class CrashFiles {
  #last: Promise<void> = Promise.resolve()

  constructor(
    private readonly folder: string,
    private readonly logger: Logger,
  ) {}

  /** Writes a recording, after the previous ones; logs a failure. */
  readonly keep = (recording: Recording): void => {
    this.#last = this.#last
      .then(() => this.#write(recording))
      .catch((error: unknown) => {
        const fields = { folder: this.folder, err: error }
        this.logger.warn(fields, 'the recording of the crash could not be written')
      })
  }

  /** Resolves when all recordings are written. */
  async written(): Promise<void> {
    await this.#last
  }

  async #write(recording: Recording): Promise<void> {
    const time = new Date(recording.beginsAt + recording.durationMs).toISOString()
    const file = join(this.folder, `crash-${time.replaceAll(/[:.]/g, '-')}.json`)
    await keepFile(file, recording, name, most)
    this.logger.error({ file }, 'wrote a recording of the crash for cllm simulate --replay')
  }
}

/** Writes a file, and removes the oldest of its folder with such names, so that `most` of them are left. */
async function keepFile(file: string, content: object, pattern: RegExp, most: number) {
  const folder = dirname(file)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  await writeWhole(file, JSON.stringify(content))
  const isOther = (name: string) => pattern.test(name) && name !== basename(file)
  const timed = (await readdir(folder)).filter(isOther).map(async (name) => {
    const path = join(folder, name)
    return { path, at: (await lstat(path).catch(() => undefined))?.mtimeMs ?? 0 }
  })
  const newestFirst = (await Promise.all(timed)).toSorted((a, b) => b.at - a.at)
  for (const { path } of newestFirst.slice(most - 1)) await rm(path, { force: true })
}

/** Most files of the folder, and most bytes of each. */
const [mostFiles, mostBytes] = [64, 65_536]

const ours = /^[0-9a-f]{32}\.json(\.[0-9a-f-]{36}\.part)?$/

/**
 * Opens the file with what engines of one kind learned. A problem with it, or with its folder, is only logged, at
 * `debug`.
 *
 * @param kind - everything that the learned values depend on: machine, library, model and settings
 */
export async function openLearned(
  folder: string,
  kind: unknown,
  logger: Logger,
): Promise<LearnedStore> {
  const of = createHash('sha256').update(JSON.stringify(kind)).digest('hex').slice(0, 32)
  const file = join(folder, `${of}.json`)
  const attempt = async (work: Promise<unknown>): Promise<unknown> =>
    await work.catch((error: unknown) => {
      logger.debug({ file, err: error }, 'what was learned is not kept')
    })
  return {
    known: await attempt(read(file, of)),
    keep: async (learned) => void (await attempt(keepFile(file, { of, learned }, ours, mostFiles))),
  }
}

async function read(file: string, kind: string): Promise<unknown> {
  const found = await lstat(file).catch(() => undefined)
  if (found === undefined) return undefined
  if (!found.isFile() || found.size > mostBytes) throw new TypeError('it is no small file')
  const { of, learned } = JSON.parse(await readFile(file, 'utf8')) as Record<string, unknown>
  if (of !== kind) throw new TypeError('it is of another kind of engine')
  return learned
}
