import { removeBuilds } from '@cllm/backend-llamacpp/native-build'
import { nativeFolder } from '../../models/cache-folder.js'
import type { CommandIo } from '../command-io.js'
import { parseCommand } from '../flags/parse-command.js'
import { withNativeLock } from './native-lock.js'

const usage = `Usage: cllm native remove

Removes the libraries that \`cllm native build\` has built: the prebuilt one computes again, from
the next start on.
`

/** `cllm native remove` */
export async function run(argv: string[], io: CommandIo): Promise<number> {
  const parsed = parseCommand(argv, io, { usage, options: {}, words: [] })
  if (parsed === undefined) return 0
  const folder = nativeFolder({ env: io.env })
  const count = await withNativeLock(folder, io, async () => await removeBuilds(folder))
  const what = count === 1 ? 'one build' : `${count} builds`
  io.stdout.write(count === 0 ? `nothing was built in ${folder}\n` : `removed ${what}\n`)
  return 0
}
