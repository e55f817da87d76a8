import { defineCommand } from '../flags/define-command.js'
import { ServerClient } from './server-client.js'
import { serverAddress, serverFlags } from './server-flags.js'

/** `cllm stop` */
export const run = defineCommand({
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
