import { pullModel } from '../../models/pull-model.js'
import type { CommandIo } from '../command-io.js'
import { configOption, configOptionHelp, modelsFolder } from './models-folder.js'
import { parseCommand } from '../parse-command.js'

const usage = `Usage: cllm pull <model> [--config FILE]

Downloads a model, so that serving it needs no network, and prints the path of its file.

  <model>         A name that \`cllm models\` lists, or hf:owner/repository[:quantization]
${configOptionHelp}
`

/** `cllm pull` */
export async function run(argv: string[], io: CommandIo): Promise<number> {
  const options = configOption
  const parsed = parseCommand(argv, io, { usage, options, words: ['<model>'] })
  if (parsed === undefined) return 0
  const [spec = ''] = parsed.positionals
  const { path } = await pullModel(spec, io.stderr, {
    env: io.env,
    signal: io.signal,
    cacheFolder: modelsFolder(parsed.values.config, io.env),
  })
  io.stdout.write(`${path}\n`)
  return 0
}
