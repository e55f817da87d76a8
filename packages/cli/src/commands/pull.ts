import { pullModel } from '../models/pull-model.js'
import type { CommandIo } from './command-io.js'
import { runCommand } from './run-command.js'

const usage = `Usage: cllm pull <model>

Fetches a model, so that serving it needs no network. The path of its file is printed.

  <model>   a name that \`cllm models\` lists, or hf:owner/repository[:quantization]
`

/** `cllm pull` */
export async function run(argv: string[], io: CommandIo): Promise<number> {
  const definition = { usage, options: {}, words: ['<model>'] } as const
  return await runCommand(argv, io, definition, async ({ positionals: [spec = ''] }) => {
    const { path } = await pullModel(spec, io.stderr, { env: io.env, signal: io.signal })
    io.stdout.write(`${path}\n`)
  })
}
