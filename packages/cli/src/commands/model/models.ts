import { loadConfig } from '../../config/load-config.js'
import { listModels, modelTable } from '../../models/catalog/list-models.js'
import type { CommandIo } from '../command-io.js'
import { configFlags, configOption, configOptionHelp, modelsFolder } from './models-folder.js'
import { parseCommand } from '../flags/parse-command.js'

const usage = `Usage: cllm models [--json] [--config FILE]

Lists the models of the catalog: name, size, licence, and whether the model is downloaded.

  --json          Print JSON
${configOptionHelp}
`

/** `cllm models` */
export async function run(argv: string[], io: CommandIo): Promise<number> {
  const options = { json: { type: 'boolean' }, ...configOption } as const
  const parsed = parseCommand(argv, io, { usage, options, words: [] })
  if (parsed === undefined) return 0
  const loaded = loadConfig({ argv: configFlags(parsed.values.config), env: io.env })
  const folder = modelsFolder(loaded, io.env)
  const models = await listModels(folder)
  if (parsed.values.json) io.stdout.write(`${JSON.stringify(models, undefined, 2)}\n`)
  else io.stdout.write(`${modelTable(models)}in ${folder}\n`)
  return 0
}
