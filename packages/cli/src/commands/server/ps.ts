import { textTable } from '../../process/text-table.js'
import { formatBytes } from '../../models/format-bytes.js'
import { defineCommand } from '../flags/define-command.js'
import { toggle } from '../flags/flags.js'
import { readModels, type ServedModelState, ServerClient } from './server-client.js'
import { serverAddress, serverFlags } from './server-flags.js'

const flags = { json: toggle('Print JSON'), ...serverFlags }

/** `cllm ps` */
export const run = defineCommand({
  usage: 'ps',
  doc: 'Lists the models that a running server has in memory, and what they do.',
  flags,
  async run({ flags }, io) {
    const client = new ServerClient(serverAddress(flags, io))
    const all = await readModels(client, io.signal)
    const loaded = all.filter(({ state }) => state !== 'unloaded')
    if (flags.json) io.stdout.write(`${JSON.stringify(loaded, undefined, 2)}\n`)
    else io.stdout.write(`${table(loaded)}\n`)
    return 0
  },
})

function table(models: readonly ServedModelState[]): string {
  const head = ['name', 'state', 'size', 'requests', 'waiting', 'until']
  const rows = textTable(head)
  for (const { name, state, sizeBytes, users, waiting, expiresAt } of models) {
    const size = sizeBytes === null ? '' : formatBytes(sizeBytes)
    rows.push([name, state, size, users, waiting, expiresAt ?? 'forever'])
  }
  return rows.toString()
}
