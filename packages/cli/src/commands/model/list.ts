import { availableMemory } from '../../engine/memory/available-memory.js'
import { downloadedModels } from '../../models/catalog/known-model.js'
import { listModels, modelTable } from '../../models/catalog/list-models.js'
import { formatBytes } from '../../models/format-bytes.js'
import { textTable } from '../../process/text-table.js'
import { tell } from '../command-io.js'
import { defineCommand } from '../flags/define-command.js'
import { toggle } from '../flags/flags.js'
import { configFlag, folderFrom } from './models-folder.js'

const flags = { json: toggle('Print JSON'), config: configFlag }

/** `cllm models` */
export const models = defineCommand({
  usage: 'models',
  doc: `
Lists the models of the catalog: name, size, memory with 4,096 tokens of context and whether this
machine has it (✓), licence, and whether the model is downloaded.`,
  flags,
  async run({ flags }, io) {
    const folder = folderFrom(flags, io)
    const all = await listModels(folder)
    return tell(io, flags.json, all, () => `${modelTable(all, availableMemory())}in ${folder}\n`)
  },
})

/** `cllm list` */
export const run = defineCommand({
  usage: 'list',
  doc: `
Lists the downloaded models. \`cllm models\` lists the catalog, \`cllm ps\` the loaded models of a
running server.`,
  flags,
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
