import {
  protocol,
  readRecord,
  type RedisBus,
  type IncompatibleWorker,
  workerMailbox,
  type WorkerRecord,
  writeOrder,
} from '@cllm/cluster'
import { didYouMean } from '@cllm/core'
import { textTable } from '../../process/terminal.js'
import { clusterFlags, configFrom } from '../config-flags.js'
import { usingBus } from './join-cluster.js'
import { type CommandIo, defineCommand } from '../command.js'
import { toggle, type Values, wrong } from '../flags.js'

/** `cllm cluster` */
export const list = defineCommand({
  usage: 'cluster',
  doc: 'Lists the workers of a cluster with their load.',
  flags: { json: toggle('Print JSON'), ...clusterFlags },
  async run({ flags }, io) {
    const workers = await withBus(flags, io, workersOn)
    io.stdout.write(flags.json ? `${JSON.stringify(workers.map(summaryOf))}\n` : table(workers))
  },
})

/** `cllm cluster drain` */
export const drain = defineCommand({
  usage: 'cluster drain <worker>',
  doc: `
Tells a worker to take no new requests and to stop after its last one. Requests that run longer than
--drain-timeout move to other workers; with --migrate, they move at once. Returns immediately;
\`cllm cluster\` shows when the worker is gone.`,
  flags: {
    migrate: toggle('Move running requests to other workers at once'),
    ...clusterFlags,
  },
  async run({ flags, words: [id = ''] }, io) {
    await withBus(flags, io, async (bus) => {
      const workers = await workersOn(bus)
      const found = workers.find((worker) => worker.id === id)
      if (found === undefined) {
        const ids = workers.map((worker) => worker.id)
        const known =
          ids.length === 0 ? 'there are no workers' : `expected one of ${ids.join(', ')}`
        throw wrong(`worker: ${known}, instead got "${id}"${didYouMean(id, ids)}`)
      }
      if (found.protocol !== protocol) {
        throw wrong(`worker: ${id} is of another version of cllm, and does not understand this one`)
      }
      if (found.state === 'lost') {
        throw wrong(
          `worker: ${id} is lost: its process has ended, and its requests go on elsewhere`,
        )
      }
      await bus.deliver(workerMailbox(id), writeOrder({ order: 'drain', migrate: flags.migrate }))
    })
    io.stderr.write(`${id} drains\n`)
  },
})

async function withBus<T>(
  flags: Values<typeof clusterFlags>,
  io: CommandIo,
  use: (bus: RedisBus) => Promise<T>,
): Promise<T> {
  const { config, cluster: url, 'cluster-ca': ca } = flags
  const { cluster } = configFrom({ config, cluster: url, 'cluster-ca': ca }, io).config
  if (cluster.url === null) throw wrong('expected --cluster URL')
  return await usingBus(cluster, use)
}

type Listed =
  | (Omit<WorkerRecord, 'state'> & { readonly state: WorkerRecord['state'] | 'lost' })
  | (IncompatibleWorker & { readonly state: 'incompatible' })

/** The listed workers; a worker whose process has ended stays listed for some seconds, as lost. */
async function workersOn(bus: RedisBus): Promise<Listed[]> {
  const members = await bus.members()
  const records = [...members].flatMap(([id, text]) => readRecord(id, text) ?? [])
  const living = await bus.present(records.map(({ id }) => id))
  return records
    .map((one): Listed => {
      if (one.kind === 'incompatible') return { ...one, state: one.kind }
      return living?.has(one.id) === false ? { ...one, state: 'lost' } : one
    })
    .sort((one, other) => (one.id < other.id ? -1 : 1))
}

function summaryOf(worker: Listed) {
  const { id, host, protocol } = worker
  if (worker.kind === 'incompatible') {
    return { id, state: worker.state, model: worker.model, host, protocol }
  }
  const { state, info, load, fingerprint, refusedMessages, listedAt } = worker
  const about = { id, state, model: info.model.id, host, protocol, fingerprint, refusedMessages }
  return { ...about, ...load, listedAt }
}

function table(workers: readonly Listed[]): string {
  if (workers.length === 0) return 'There are no workers.\n'
  const head = ['worker', 'state', 'model', 'open', 'slots', 'prompt tokens ahead', 'ms/token']
  const protocols = new Set<number>()
  const rows = workers.map((worker) => {
    const { id } = worker
    if (worker.kind === 'incompatible') {
      protocols.add(worker.protocol)
      return [id, worker.state, worker.model, '', '', '', '', '', '']
    }
    const { state, info, fingerprint, load, listedAt } = worker
    const { open, slots, backlogTokens, tokenMs } = load
    const cost = typeof tokenMs === 'number' ? tokenMs.toPrecision(3) : ''
    const seconds = listedAt && Math.max(0, (Date.now() - listedAt) / 1000).toFixed(0)
    const seen = seconds === undefined ? '' : `${seconds} s ago`
    return [id, state, info.model.id, open, slots, backlogTokens, cost, seen, fingerprint]
  })
  const others = [...protocols].join(', ')
  const note =
    others === ''
      ? ''
      : `Incompatible workers speak the cluster protocol ${others}, this cllm ${protocol}: run one version.\n`
  return `${textTable([...head, 'last seen', 'fingerprint'], rows)}${note}`
}
