import { rm } from 'node:fs/promises'
import { CllmError } from '@cllm/core'
import { loadConfig } from '../../config/load-config.js'
import { downloadedModel } from '../../models/downloaded-models.js'
import { formatBytes } from '../../models/format-bytes.js'
import type { CommandIo } from '../command-io.js'
import { defineCommand } from '../flags/define-command.js'
import type { Values } from '../flags/flags.js'
import { ServerClient } from '../server/server-client.js'
import { serverAddress, serverFlags } from '../server/server-flags.js'
import { configFlags, modelsFolder } from './models-folder.js'

/** How long a server may take to unload the model before its file is deleted, in milliseconds. */
const patienceMs = 60_000

/** `cllm rm` */
export const run = defineCommand({
  usage: 'rm <model>',
  doc: `
Deletes the file of a downloaded model. A running server that has it in memory unloads it first.
Files outside the folder for downloads are never deleted.`,
  flags: serverFlags,
  async run({ flags, words: [name = ''] }, io) {
    const loaded = loadConfig({ argv: configFlags(flags.config), env: io.env })
    const model = await downloadedModel(modelsFolder(loaded, io.env), name)
    await unloadFrom(model.name, flags, io)
    await rm(model.path)
    io.stdout.write(`deleted ${model.path} (${formatBytes(model.bytes)})\n`)
    return 0
  },
})

/** Asks the running server, if there is one, to unload the model. */
async function unloadFrom(
  model: string,
  flags: Values<typeof serverFlags>,
  io: CommandIo,
): Promise<void> {
  const client = new ServerClient(serverAddress(flags, io))
  const signal = AbortSignal.any([io.signal, AbortSignal.timeout(patienceMs)])
  try {
    await client.send('POST', '/models/unload', { model }, signal)
  } catch (error) {
    const isAbsent = CllmError.isInstance(error) && absent.has(error.code)
    if (flags.url !== undefined || !isAbsent) throw error
  }
}

/** No server runs here, or it does not serve the model. */
const absent: ReadonlySet<string> = new Set([
  'target_unavailable',
  'model_not_found',
  'not_found',
  'method_not_allowed',
])
