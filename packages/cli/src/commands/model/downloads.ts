import { rm } from 'node:fs/promises'
import { defined, CllmError } from '@cllm/core'
import { availableMemory } from '../../engine/available.js'
import {
  downloadedModels,
  type DownloadedModel,
  downloadedModel,
  listModels,
  modelTable,
} from '../../models/catalog/known-models.js'
import { formatBytes, textTable } from '../../process/terminal.js'
import { tell, defineCommand, type CommandIo } from '../command.js'
import { toggle, many, type Values } from '../flags.js'
import { configFlag, folderFrom, configFrom, serverAddress, serverFlags } from '../config-flags.js'
import { schemeOf } from '../../config/paths.js'
import { llamaCpp } from '../../engine/process-channel.js'
import { backendNameOf } from '../../engine/to-engine-settings.js'
import { modelsFolder } from '../../models/cache-folder.js'
import { pullModel } from '../../models/fetch/progress-bar.js'
import { loadRegistry } from '../../plugins/load-registry.js'
import { readModels, ServerClient } from '../server/server-client.js'

const listFlags = { json: toggle('Print JSON'), config: configFlag }

/** `cllm models` */
export const models = defineCommand({
  usage: 'models',
  doc: `
Lists the models of the catalog: name, size, memory with 4,096 tokens of context and whether this
machine has it (✓), licence, and whether the model is downloaded.`,
  flags: listFlags,
  async run({ flags }, io) {
    const folder = folderFrom(flags, io)
    const all = await listModels(folder)
    return tell(io, flags.json, all, () => `${modelTable(all, availableMemory())}in ${folder}\n`)
  },
})

/** `cllm list` */
export const list = defineCommand({
  usage: 'list',
  doc: `
Lists the downloaded models. \`cllm models\` lists the catalog, \`cllm ps\` the loaded models of a
running server.`,
  flags: listFlags,
  async run({ flags }, io) {
    const folder = folderFrom(flags, io)
    const all = await downloadedModels(folder)
    const rows = all.map(({ name, bytes, modified, path }) => {
      return [name, formatBytes(bytes), modified.slice(0, 10), path]
    })
    const none = `nothing is downloaded in ${folder}\n`
    const table = () => textTable(['name', 'size', 'since', 'file'], rows)
    return tell(io, flags.json, all, () => (all.length === 0 ? none : table()))
  },
})

/** `cllm pull` */
export const pull = defineCommand({
  usage: 'pull <model>',
  doc: `
Downloads a model, so that serving it needs no network, and prints the path of its file. The model
is a name from \`cllm models\`, hf:owner/repository[:quantization], or scheme:rest with a plug-in for
the scheme.`,
  flags: {
    plugin: many('NAME', "Plug-in, by package name or path (default: the configuration's)"),
    config: configFlag,
  },
  async run({ flags: { plugin, config: file }, words: [spec = ''] }, io) {
    const loaded = configFrom({ config: file, plugin: plugin.join(',') || undefined }, io)
    const { config, pluginsFolder } = loaded
    // Other models need no plug-in, so one that cannot be loaded does not stand in their way.
    const isOther = ![undefined, 'hf'].includes(schemeOf(spec))
    const registry = isOther ? await loadRegistry(config.plugins, pluginsFolder) : undefined
    const { path } = await pullModel(spec, io.stderr, {
      env: io.env,
      signal: io.signal,
      cacheFolder: modelsFolder(loaded, io.env),
      mustBeGguf: backendNameOf(config, {}) === llamaCpp,
      ...defined({ sources: registry?.modelSources() }),
    })
    io.stdout.write(`${path}\n`)
  },
})

/** How long a server may take to unload the model before its file is deleted, in milliseconds. */
const patienceMs = 60_000

/** `cllm rm` */
export const remove = defineCommand({
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
  },
})

/** Asks the running server, if there is one, to unload the models that it has from the file, under any name. */
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
      // A model with adapters is listed several times.
      const isDone = done.some((base) => served.startsWith(`${base}:`))
      if (state === 'unloaded' || isDone) continue
      if (served !== name && (await pathOf(client, served, signal)) !== path) continue
      await client.post('/models/unload', { model: served }, signal)
      done.push(served)
    }
  } catch (error) {
    const isAbsent = CllmError.isInstance(error) && absent.includes(error.code)
    if (flags.url !== undefined || !isAbsent) throw error
  }
}

/** The file that a server has a model from; undefined while it is loaded for the first time. */
async function pathOf(client: ServerClient, model: string, signal: AbortSignal) {
  const route = `/model/info?model=${encodeURIComponent(model)}`
  const { data } = (await client.get(route, signal).catch((error: unknown) => {
    if (CllmError.isInstance(error) && error.code === 'engine_unavailable') return { data: {} }
    throw error
  })) as { readonly data: { readonly model_path?: string } }
  return data.model_path
}

/** Errors when no server runs here, or it does not serve the model. */
const absent = ['target_unavailable', 'model_not_found', 'not_found', 'method_not_allowed']
