import { accessSync, constants, mkdirSync } from 'node:fs'
import { CllmError } from '@cllm/core'

/**
 * Makes a folder that only the server's user can read, unless it is there.
 *
 * @param name - of the setting, for the message
 * @throws `invalid_configuration` where it cannot be made, read or written
 */
export function ownFolder(folder: string, name: string): void {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    accessSync(folder, constants.R_OK | constants.W_OK | constants.X_OK)
  } catch (cause) {
    const message = `${name}: the folder cannot be used: ${(cause as Error).message}`
    throw new CllmError('invalid_configuration', message, { cause })
  }
}
