import { mkdir, readdir, rm, writeFile, lstat, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { createHash, randomUUID } from 'node:crypto'
import type { Logger, Recording, LearnedStore } from '@cllm/core'
import type { CacheFolderOptions } from '../models/cache-folder.js'
import { homeFolder } from '../config/paths.js'
import { replaceFile } from '../models/model-files.js'

/** How many recordings are kept. */
const most = 8

const name = /^crash-[\d-]+T[\d-]+Z\.json$/

/**
 * The default folder for recordings of crashes: `cllm/crashes` in the user's state folder
 * (`$XDG_STATE_HOME` or `~/.local/state`; `~/Library/Logs` on macOS; `%LOCALAPPDATA%` on Windows).
 */
export function crashFolder(options: CacheFolderOptions): string {
  const { env, platform = process.platform } = options
  const home = () => options.home ?? homeFolder()
  if (platform === 'darwin') return join(home(), 'Library', 'Logs', 'cllm', 'crashes')
  if (platform === 'win32') {
    return join(env['LOCALAPPDATA'] || join(home(), 'AppData', 'Local'), 'cllm', 'Crashes')
  }
  return join(env['XDG_STATE_HOME'] || join(home(), '.local', 'state'), 'cllm', 'crashes')
}

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
    const { folder } = this
    const time = new Date(recording.beginsAt + recording.durationMs).toISOString()
    const file = join(folder, `crash-${time.replaceAll(/[:.]/g, '-')}.json`)
    await writeWhole(file, recording)
    this.logger.error({ file }, 'wrote a recording of the crash for cllm simulate --replay')
    const files = (await readdir(folder)).filter((entry) => name.test(entry)).toSorted()
    for (const old of files.slice(0, -most)) await rm(join(folder, old), { force: true })
  }
}

/** Writes a file by way of another, of which nothing is left: on a full disk it would be in the way. */
async function writeWhole(file: string, content: object): Promise<void> {
  const part = `${file}.${randomUUID()}.part`
  await mkdir(dirname(file), { recursive: true, mode: 0o700 })
  try {
    await writeFile(part, JSON.stringify(content), { mode: 0o600 })
    await replaceFile(part, file)
  } finally {
    await rm(part, { force: true })
  }
}

/** How many files a folder has, and bytes each of them. */
const [mostFiles, mostBytes] = [64, 65_536]

const ours = /^[0-9a-f]{32}\.json(\.[0-9a-f-]{36}\.part)?$/

/**
 * Opens the file with what engines of one kind learned. What is wrong with it, or with its folder, is a line at `debug`
 * and nothing else.
 *
 * @param kind - all that what is learned depends on: machine, library, model and settings
 */
export async function openLearned(
  folder: string,
  kind: unknown,
  logger: Logger,
): Promise<LearnedStore> {
  const of = createHash('sha256').update(JSON.stringify(kind)).digest('hex').slice(0, 32)
  const name = `${of}.json`
  const file = join(folder, name)
  const attempt = async (work: Promise<unknown>): Promise<unknown> =>
    await work.catch((error: unknown) => {
      logger.debug({ file, err: error }, 'what was learned is not kept')
    })
  return {
    known: await attempt(read(file, of)),
    keep: async (learned) => void (await attempt(write(folder, name, { of, learned }))),
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

async function write(folder: string, name: string, content: object): Promise<void> {
  await writeWhole(join(folder, name), content)
  const others = (await readdir(folder)).filter((one) => ours.test(one) && one !== name)
  for (const one of others.slice(mostFiles - 1)) await rm(join(folder, one), { force: true })
}
