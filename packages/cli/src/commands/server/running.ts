import { setTimeout as sleep } from 'node:timers/promises'
import { formatBytes, textTable } from '../../process/terminal.js'
import { tell, defineCommand, type CommandIo } from '../command.js'
import { toggle, one, duration } from '../flags.js'
import { readModels, type ServedModelState, ServerClient } from './server-client.js'
import { serverAddress, serverFlags } from '../config-flags.js'

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
    await client.post('/models/unload', { model }, io.signal)
    io.stdout.write(`${model} is unloaded\n`)
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
  },
})

const enter = '\u001B[?1049h\u001B[?25l'
const leave = '\u001B[?25h\u001B[?1049l'
const home = '\u001B[H'
const eraseRest = '\u001B[K\n'
const eraseBelow = '\u001B[J'

/** `cllm top` */
export const top = defineCommand({
  usage: 'top',
  doc: `
Shows the models of a running server with their slots, queues and tokens per second. Ctrl-C leaves.
If the output is not a terminal, the figures are printed once.`,
  flags: {
    once: toggle('Print the figures once and exit'),
    interval: one('TIME', 'Time between updates', duration, '1s'),
    ...serverFlags,
  },
  async run({ flags }, io) {
    const client = new ServerClient(serverAddress(flags, io))
    const now = await readActivity(client, io.signal)
    if (!flags.once && io.stdout.isTTY === true) return await watch(client, now, flags.interval, io)
    io.stdout.write(renderActivity(now, undefined))
  },
})

/** Redraws until Ctrl-C. If the server does not answer, the error is shown and it is asked again. */
async function watch(client: ServerClient, first: Activity, interval: number, io: CommandIo) {
  const { stdout, signal } = io
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
}

/** A slot, as `GET /slots` shows it. */
interface SlotState {
  readonly id: number
  /** `idle`, or the state of its request, such as `decoding`. */
  readonly state: string
  /** Tokens in it. */
  readonly n_past: number
  /** Tokens that it holds at most. */
  readonly n_ctx: number
}

/** The activity of a model. */
interface ModelActivity extends ServedModelState {
  readonly slots: readonly SlotState[]
  /** Requests with a slot, and without one. */
  readonly running: number
  readonly queued: number
  /** Tokens computed since the start, of prompts and of answers. */
  readonly prefillTokens: number
  readonly decodeTokens: number
}

/** A snapshot of a server's activity. */
interface Activity {
  /** Milliseconds, for the time between two snapshots. */
  readonly at: number
  readonly models: readonly ModelActivity[]
}

/** Reads a server's activity, from `GET /models`, `/slots` and `/metrics`. */
async function readActivity(client: ServerClient, signal: AbortSignal): Promise<Activity> {
  const [models, metrics] = await Promise.all([
    readModels(client, signal),
    client.text('/metrics', signal),
  ])
  const at = performance.now()
  const active = models.map(async (model): Promise<ModelActivity> => {
    const query = `/slots?model=${encodeURIComponent(model.name)}`
    const slots = (await client.get(query, signal)) as readonly SlotState[]
    const value = (name: string, labels: Readonly<Record<string, string>> = {}): number =>
      sample(metrics, name, { model_name: model.name, ...labels })
    return {
      ...model,
      slots,
      running: value('cllm_num_requests_running'),
      queued: value('cllm_num_requests_waiting'),
      prefillTokens: value('cllm_step_tokens_total', { kind: 'prefill' }),
      decodeTokens: value('cllm_step_tokens_total', { kind: 'decode' }),
    }
  })
  return { at, models: await Promise.all(active) }
}

/** The value of a metric in Prometheus' text format; 0 where it is not there. */
function sample(text: string, name: string, labels: Readonly<Record<string, string>>): number {
  const wanted = Object.entries(labels).map(([key, value]) => `${key}=${JSON.stringify(value)}`)
  const line = text
    .split('\n')
    .find((one) => one.startsWith(`${name}{`) && wanted.every((label) => one.includes(label)))
  return Number(line?.slice(line.lastIndexOf(' ') + 1) ?? 0)
}

/**
 * A server's activity, as tables.
 *
 * @param before - an earlier snapshot, for rates; without it they are left out
 */
function renderActivity(now: Activity, before: Activity | undefined): string {
  const head = ['model', 'state', 'weights', 'running', 'queued', 'prefill tok/s', 'decode tok/s']
  const rows = now.models.map((model) => {
    const earlier = before?.models.find(({ name }) => name === model.name)
    const seconds = before === undefined ? 0 : (now.at - before.at) / 1000
    const rate = (kind: 'prefillTokens' | 'decodeTokens') =>
      earlier === undefined ? '–' : ((model[kind] - earlier[kind]) / seconds).toFixed(1)
    const size = model.sizeBytes === null ? '' : formatBytes(model.sizeBytes)
    const counts = [model.running, model.queued]
    const rates = [rate('prefillTokens'), rate('decodeTokens')]
    return [model.name, model.state, size, ...counts, ...rates]
  })
  const slots = now.models.filter((model) => model.slots.length > 0).map(slotTable)
  return [textTable(head, rows), ...slots].join('\n')
}

const width = 30

function slotTable({ name, slots }: ModelActivity): string {
  const rows = slots.map((slot) => {
    return [slot.id, slot.state, `${slot.n_past} of ${slot.n_ctx}`, bar(slot)]
  })
  return `slots of ${name}\n${textTable(['slot', 'state', 'tokens', ''], rows)}`
}

const bar = ({ n_past: used, n_ctx: size }: SlotState): string => {
  const filled = Math.round((Math.min(used, size) / Math.max(1, size)) * width)
  return '█'.repeat(filled) + '·'.repeat(width - filled)
}
