import { setTimeout as sleep } from 'node:timers/promises'
import type { CommandIo } from '../command-io.js'
import { defineCommand } from '../flags/define-command.js'
import { one, toggle } from '../flags/flags.js'
import { duration } from '../flags/values.js'
import { type Activity, readActivity } from './activity.js'
import { ServerClient } from './server-client.js'
import { serverAddress, serverFlags } from './server-flags.js'
import { renderActivity } from './render-activity.js'

const flags = {
  once: toggle('Print the figures once and exit'),
  interval: one('TIME', 'Time between updates', duration, '1s'),
  ...serverFlags,
}

const enter = '\u001B[?1049h\u001B[?25l'
const leave = '\u001B[?25h\u001B[?1049l'
const home = '\u001B[H'
const eraseRest = '\u001B[K\n'
const eraseBelow = '\u001B[J'

/** `cllm top` */
export const run = defineCommand({
  usage: 'top',
  doc: `
Shows the models of a running server with their slots, queues and tokens per second. Ctrl-C leaves.
If the output is not a terminal, the figures are printed once.`,
  flags,
  async run({ flags }, io) {
    const client = new ServerClient(serverAddress(flags, io))
    const now = await readActivity(client, io.signal)
    if (!flags.once && io.stdout.isTTY === true) return await watch(client, now, flags.interval, io)
    io.stdout.write(renderActivity(now, undefined))
    return 0
  },
})

/** Redraws until Ctrl-C. A server that does not answer is shown as such, and looked for again. */
async function watch(
  client: ServerClient,
  first: Activity,
  interval: number,
  { stdout, signal }: CommandIo,
): Promise<number> {
  let [before, now]: [Activity | undefined, Activity] = [undefined, first]
  stdout.write(enter)
  try {
    while (!signal.aborted) {
      const lines = `${client.address.url.origin}\n\n${renderActivity(now, before)}`
      stdout.write(home + lines.replaceAll('\n', eraseRest) + eraseBelow)
      await sleep(interval, undefined, { signal }).catch(() => {})
      try {
        ;[before, now] = [now, await readActivity(client, signal)]
      } catch (error) {
        if (!signal.aborted) stdout.write(`${home}${(error as Error).message}${eraseRest}`)
      }
    }
  } finally {
    stdout.write(leave)
  }
  return 0
}
