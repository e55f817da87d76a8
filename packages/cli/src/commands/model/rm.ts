import { rm } from 'node:fs/promises'
import { CllmError } from '@cllm/core'
import { type DownloadedModel, downloadedModel } from '../../models/catalog/known-model.js'
import { formatBytes } from '../../models/format-bytes.js'
import type { CommandIo } from '../command-io.js'
import { defineCommand } from '../flags/define-command.js'
import type { Values } from '../flags/flags.js'
import { readModels, ServerClient } from '../server/server-client.js'
import { serverAddress, serverFlags } from '../server/server-flags.js'
import { folderFrom } from './models-folder.js'

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
    const model = await downloadedModel(folderFrom(flags, io), name)
    await unloadFrom(model, flags, io)
    for (const file of model.files) await rm(file, { force: true })
    io.stdout.write(`deleted ${model.files.join(', ')} (${formatBytes(model.bytes)})\n`)
    return 0
  },
})

/** Asks the running server, if there is one, to unload what it has of the file, under whatever name. */
async function unloadFrom(
  { name, path }: DownloadedModel,
  flags: Values<typeof serverFlags>,
  io: CommandIo,
): Promise<void> {
  const client = new ServerClient(serverAddress(flags, io))
  const signal = AbortSignal.any([io.signal, AbortSignal.timeout(patienceMs)])
  try {
    const done: string[] = []
    for (const { name: served, state } of await readModels(client, signal)) {
      // With its adapters it is listed several times.
      const isDone = done.some((base) => served.startsWith(`${base}:`))
      if (state === 'unloaded' || isDone) continue
      if (served !== name && (await pathOf(client, served, signal)) !== path) continue
      await client.send('POST', '/models/unload', { model: served }, signal)
      done.push(served)
    }
  } catch (error) {
    const isAbsent = CllmError.isInstance(error) && absent.has(error.code)
    if (flags.url !== undefined || !isAbsent) throw error
  }
}

/** The file that a server has a model from; undefined while it is loaded for the first time. */
async function pathOf(
  client: ServerClient,
  model: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  const route = `/model/info?model=${encodeURIComponent(model)}`
  const { data } = (await client.get(route, signal).catch((error: unknown) => {
    if (CllmError.isInstance(error) && error.code === 'engine_unavailable') return { data: {} }
    throw error
  })) as { readonly data: { readonly model_path?: string } }
  return data.model_path
}

/** No server runs here, or it does not serve the model. */
const absent: ReadonlySet<string> = new Set([
  'target_unavailable',
  'model_not_found',
  'not_found',
  'method_not_allowed',
])
