import { textTable } from '../../process/text-table.js'
import { downloadedModels } from '../../models/catalog/known-model.js'
import { formatBytes } from '../../models/format-bytes.js'
import { defineCommand } from '../flags/define-command.js'
import { toggle } from '../flags/flags.js'
import { configFlag, configFrom, modelsFolder } from './models-folder.js'

const flags = { json: toggle('Print JSON'), config: configFlag }

/** `cllm list` */
export const run = defineCommand({
  usage: 'list',
  doc: `
Lists the downloaded models. \`cllm models\` lists the catalog, \`cllm ps\` the loaded models of a
running server.`,
  flags,
  async run({ flags }, io) {
    const loaded = configFrom({ config: flags.config }, io)
    const folder = modelsFolder(loaded, io.env)
    const models = await downloadedModels(folder)
    if (flags.json) {
      io.stdout.write(`${JSON.stringify(models, undefined, 2)}\n`)
      return 0
    }
    const table = textTable(['name', 'size', 'since', 'file'])
    for (const { name, bytes, modified, path } of models) {
      table.push([name, formatBytes(bytes), modified.slice(0, 10), path])
    }
    io.stdout.write(
      models.length === 0 ? `nothing is downloaded in ${folder}\n` : `${table.toString()}\n`,
    )
    return 0
  },
})
