import { formatBytes } from '../../models/format-bytes.js'
import { textTable } from '../../process/text-table.js'
import { tell } from '../command-io.js'
import { defineCommand } from '../flags/define-command.js'
import { toggle } from '../flags/flags.js'
import { readModels, type ServedModelState, ServerClient } from './server-client.js'
import { serverAddress, serverFlags } from './server-flags.js'

/** `cllm ps` */
export const ps = defineCommand({
  usage: 'ps',
  doc: 'Lists the models that a running server has in memory, and what they do.',
  flags: { json: toggle('Print JSON'), ...serverFlags },
  async run({ flags }, io) {
    const client = new ServerClient(serverAddress(flags, io))
    const all = await readModels(client, io.signal)
    const loaded = all.filter(({ state }) => state !== 'unloaded')
    return tell(io, flags.json, loaded, () => table(loaded))
  },
})

function table(models: readonly ServedModelState[]): string {
  const rows = models.map(({ name, state, sizeBytes, users, waiting, expiresAt }) => {
    const size = sizeBytes === null ? '' : formatBytes(sizeBytes)
    return [name, state, size, users, waiting, expiresAt ?? 'forever']
  })
  return textTable(['name', 'state', 'weights', 'requests', 'waiting', 'until'], rows)
}

/** `cllm stop` */
export const stop = defineCommand({
  usage: 'stop <model>',
  doc: `
Unloads a model from a running server; its requests finish first. The next request for the model
loads it again. With API keys, this needs an admin key.`,
  flags: serverFlags,
  async run({ flags, words: [model = ''] }, io) {
    const client = new ServerClient(serverAddress(flags, io))
    await client.send('POST', '/models/unload', { model }, io.signal)
    io.stdout.write(`${model} is unloaded\n`)
    return 0
  },
})

/** `cllm why` */
export const why = defineCommand({
  usage: 'why <id>',
  doc: `
Tells in sentences what happened to a request of a running server: why it waited, what was computed
for it and what was not, and how it ended. Its id is the answer's, or its X-Request-Id.`,
  flags: serverFlags,
  async run({ flags, words: [id = ''] }, io) {
    const client = new ServerClient(serverAddress(flags, io))
    const { data } = (await client.get(`/requests/${encodeURIComponent(id)}`, io.signal)) as {
      readonly data: { readonly sentences: readonly string[] }
    }
    io.stdout.write(`${data.sentences.join('\n')}\n`)
    return 0
  },
})
