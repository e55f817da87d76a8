import { listModels, modelTable } from '../../models/catalog/list-models.js'
import { defineCommand } from '../flags/define-command.js'
import { toggle } from '../flags/flags.js'
import { configFlag, configFrom, modelsFolder } from './models-folder.js'

const flags = { json: toggle('Print JSON'), config: configFlag }

/** `cllm models` */
export const run = defineCommand({
  usage: 'models',
  doc: `
Lists the models of the catalog: name, size, memory with 4,096 tokens of context, licence, and
whether the model is downloaded.`,
  flags,
  async run({ flags }, io) {
    const loaded = configFrom({ config: flags.config }, io)
    const folder = modelsFolder(loaded, io.env)
    const models = await listModels(folder)
    if (flags.json) io.stdout.write(`${JSON.stringify(models, undefined, 2)}\n`)
    else io.stdout.write(`${modelTable(models)}in ${folder}\n`)
    return 0
  },
})
