import { mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import type { Logger, Recording } from '@cllm/core'
import type { CacheFolderOptions } from '../models/cache-folder.js'
import { replaceFile } from '../models/replace-file.js'

/** How many recordings are kept. */
const most = 8

const name = /^crash-[\d-]+T[\d-]+Z\.json$/

/**
 * The default folder for recordings of crashes: `cllm/crashes` in the user's state folder
 * (`$XDG_STATE_HOME` or `~/.local/state`; `~/Library/Logs` on macOS; `%LOCALAPPDATA%` on Windows).
 */
export function crashFolder(options: CacheFolderOptions): string {
  const { env, platform = process.platform, home = homedir() } = options
  if (platform === 'darwin') return join(home, 'Library', 'Logs', 'cllm', 'crashes')
  if (platform === 'win32') {
    return join(env['LOCALAPPDATA'] || join(home, 'AppData', 'Local'), 'cllm', 'Crashes')
  }
  return join(env['XDG_STATE_HOME'] || join(home, '.local', 'state'), 'cllm', 'crashes')
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
    await mkdir(folder, { recursive: true, mode: 0o700 })
    const time = new Date(recording.beginsAt + recording.durationMs).toISOString()
    const file = join(folder, `crash-${time.replaceAll(/[:.]/g, '-')}.json`)
    await writeFile(`${file}.part`, JSON.stringify(recording), { mode: 0o600 })
    await replaceFile(`${file}.part`, file)
    this.logger.error({ file }, 'wrote a recording of the crash for cllm simulate --replay')
    const files = (await readdir(folder)).filter((entry) => name.test(entry)).toSorted()
    for (const old of files.slice(0, -most)) await rm(join(folder, old), { force: true })
  }
}
