import { RedisBus, workerMailbox, type WorkerOrder, type WorkerRecord } from '@cllm/cluster'
import { CllmError, didYouMean } from '@cllm/core'
import Table from 'cli-table3'
import { loadConfig } from '../../config/load-config.js'
import type { CommandIo } from '../command-io.js'
import { parseCommand } from '../parse-command.js'

const clusterFlags = { cluster: { type: 'string' }, config: { type: 'string' } } as const

const clusterHelp = `  --cluster URL   Its Redis or Valkey server; also CLLM_CLUSTER
  --config FILE   The YAML file of \`cllm serve\`, for its \`cluster.url\`
`

const listUsage = `Usage: cllm cluster [--json] [flags]

Lists the workers of a cluster with their load.

  --json          Print JSON
${clusterHelp}`

const drainUsage = `Usage: cllm cluster drain <worker> [flags]

Tells a worker to take no new requests, and to end when its last one has. What takes longer than its
--drain-timeout goes on at another worker. Returns at once; \`cllm cluster\` shows when it is gone.

${clusterHelp}`

/** `cllm cluster` */
export async function list(argv: string[], io: CommandIo): Promise<number> {
  const options = { ...clusterFlags, json: { type: 'boolean' } } as const
  const parsed = parseCommand(argv, io, { usage: listUsage, options, words: [] })
  if (parsed === undefined) return 0
  const workers = await withBus(parsed.values, io, workersOn)
  io.stdout.write(
    parsed.values.json === true ? `${JSON.stringify(workers.map(summaryOf))}\n` : table(workers),
  )
  return 0
}

/** `cllm cluster drain` */
export async function drain(argv: string[], io: CommandIo): Promise<number> {
  const command = { usage: drainUsage, options: clusterFlags, words: ['<worker>'] }
  const parsed = parseCommand(argv, io, command)
  if (parsed === undefined) return 0
  const [id = ''] = parsed.positionals
  await withBus(parsed.values, io, async (bus) => {
    const ids = (await workersOn(bus)).map((worker) => worker.id)
    if (!ids.includes(id)) {
      const known = ids.length === 0 ? 'there are no workers' : `expected one of ${ids.join(', ')}`
      const message = `worker: ${known}, instead got "${id}"${didYouMean(id, ids)}`
      throw new CllmError('invalid_configuration', message)
    }
    await bus.deliver(workerMailbox(id), JSON.stringify({ order: 'drain' } satisfies WorkerOrder))
  })
  io.stderr.write(`${id} drains\n`)
  return 0
}

async function withBus<T>(
  values: { readonly [Flag in keyof typeof clusterFlags]?: string | undefined },
  { env }: CommandIo,
  use: (bus: RedisBus) => Promise<T>,
): Promise<T> {
  const argv = (['config', 'cluster'] as const).flatMap((flag) =>
    values[flag] === undefined ? [] : [`--${flag}`, values[flag]],
  )
  const { url } = loadConfig({ argv, env }).config.cluster
  if (url === null) throw new CllmError('invalid_configuration', 'expected --cluster URL')
  const bus = await RedisBus.connect({ url })
  try {
    return await use(bus)
  } finally {
    await bus.close()
  }
}

async function workersOn(bus: RedisBus): Promise<WorkerRecord[]> {
  const members = await bus.members()
  const records = [...members.values()].map((text) => JSON.parse(text) as WorkerRecord)
  return records.sort((one, other) => (one.id < other.id ? -1 : 1))
}

function summaryOf({ id, state, info, fingerprint, host, load }: WorkerRecord) {
  return { id, state, model: info.model.id, host, fingerprint, ...load }
}

function table(workers: readonly WorkerRecord[]): string {
  if (workers.length === 0) return 'There are no workers.\n'
  const head = ['worker', 'state', 'model', 'open', 'slots', 'prompt tokens ahead', 'ms/token']
  const rows = new Table({ head: [...head, 'fingerprint'] })
  for (const { id, state, info, fingerprint, load } of workers) {
    const { open, slots, backlogTokens, tokenMs } = load
    const cost = tokenMs === undefined ? '' : tokenMs.toPrecision(3)
    rows.push([id, state, info.model.id, open, slots, backlogTokens, cost, fingerprint])
  }
  return `${rows.toString()}\n`
}
