import { removeBuilds } from '@cllm/backend-llamacpp/native-build'
import { nativeFolder } from '../../models/cache-folder.js'
import { defineCommand } from '../flags/define-command.js'
import { withNativeLock } from './native-lock.js'

/** `cllm native remove` */
export const run = defineCommand({
  usage: 'native remove',
  doc: `
Deletes the libraries built by \`cllm native build\`. The prebuilt library is used from the next
start on.`,
  flags: {},
  async run(_, io) {
    const folder = nativeFolder({ env: io.env })
    const count = await withNativeLock(folder, io, async () => await removeBuilds(folder))
    const what = count === 1 ? 'one build' : `${count} builds`
    io.stdout.write(count === 0 ? `no local builds in ${folder}\n` : `deleted ${what}\n`)
    return 0
  },
})
