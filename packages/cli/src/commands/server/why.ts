import { defineCommand } from '../flags/define-command.js'
import { ServerClient } from './server-client.js'
import { serverAddress, serverFlags } from './server-flags.js'

/** `cllm why` */
export const run = defineCommand({
  usage: 'why <id>',
  doc: `
Tells in sentences what happened to a request of a running server: why it waited, what was computed
for it and what was not, and how it ended. Its id is the answer's X-Request-Id, as in the log.`,
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
