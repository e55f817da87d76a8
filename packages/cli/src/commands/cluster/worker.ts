import { rmSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'
import { type RedisBus, WorkerHost } from '@cllm/cluster'
import { type LoadedModel, SupervisedEngineClient } from '@cllm/host'
import { type Logger, attempt, systemClock, within } from '@cllm/core'
import type { CllmConfig } from '../../config/options/schema.js'
import { loadConfig } from '../../config/load-config.js'
import { orInvalid } from '../../config/messages.js'
import { LoadableModels } from '../../models/served/loadable-models.js'
import type { CommandIo } from '../command.js'
import { wrong } from '../flags.js'
import { configHelp } from '../help/config-help.js'
import { prepareServing } from '../serve/prepare-serving.js'
import { tellUncaught } from '../../process/logger.js'
import { stopped, unlessStopped } from '../../process/stop-signal.js'
import { connectBus, processName } from './join-cluster.js'

/** The output of `cllm worker --help`, or with `all` flags. */
export const help = (all: boolean): string => `Usage: cllm worker --cluster URL --model SPEC [flags]

Serves a model to the fronts of a cluster (\`cllm serve --cluster URL\`), over its Redis or Valkey
server. Prints \`worker ID serves MODEL\` when it can take requests. SIGINT and SIGTERM let running
requests finish, or with --drain-migrate go on at other workers at once; what does not finish within
--drain-timeout goes on at another worker, too.

${configHelp(all ? undefined : 'worker')}`

/** `cllm worker`: runs until the signal is aborted, it is drained, or its engine cannot be started again. */
export async function run(argv: readonly string[], io: CommandIo): Promise<number> {
  const loaded = loadConfig({ argv, env: io.env, listens: false })
  const { config } = loaded
  const { url, ready_file: readyFile } = config.cluster
  if (url === null) throw wrong('--cluster is missing: the URL of a Redis or Valkey server')
  if (Object.keys(config.models.served).length > 0) {
    throw wrong('models.served: a worker serves one model, which --model names')
  }
  // A killed worker may have left the file: probes would take this worker for ready while it loads its model.
  if (readyFile !== null) orInvalid(() => rmSync(readyFile, { force: true }), `${unusable} removed`)
  const parts = await prepareServing(loaded, io, true)
  const { logger } = parts
  const models = new LoadableModels(loaded, io, parts)
  // An unreachable cluster is reported before a model is fetched.
  const bus = await connectBus(config.cluster, logger)
  const untell = tellUncaught(logger)
  try {
    const { signal } = io
    const loading = models.single().load({ heldBytes: 0, signal })
    const model = await unlessStopped(signal, loading)
    if (model === undefined) return 0
    try {
      return await host(model, bus, config, logger, io)
    } finally {
      await model.close()
    }
  } finally {
    models.memory?.remove()
    await bus.close()
    await parts.crashes.written()
    untell()
  }
}

async function host(
  model: LoadedModel,
  bus: RedisBus,
  { cluster, server }: CllmConfig,
  logger: Logger,
  io: CommandIo,
): Promise<number> {
  const info = await model.client.info()
  const id = processName()
  const { fingerprint = 'unknown' } = info
  const parts = { id, bus, client: model.client, info, fingerprint, host: hostname(), logger }
  const served = new WorkerHost(parts)
  if (model.client instanceof SupervisedEngineClient) {
    model.client.onState((state) => served.setRestarting(state === 'restarting'))
  }
  await served.start()
  let removeReadyFile: () => void
  try {
    removeReadyFile = keepReadyFile(cluster.ready_file)
  } catch (error) {
    // Without the file, a probe would end a worker that fronts have begun to use.
    await served.close()
    throw error
  }
  io.stdout.write(`worker ${id} serves ${info.model.id}\n`)
  const reason = await Promise.race([model.gone, stopped(io.signal), served.drained])
  removeReadyFile()
  if (reason === undefined) {
    const seconds = server.drain_timeout
    logger.info({ seconds }, 'draining: running requests may finish')
    const drained = served.drain({ migrate: cluster.drain_migrate })
    await within(systemClock, seconds * 1000, drained, () => {})
  } else io.stderr.write(`error: The engine died and cannot be restarted: ${reason}\n`)
  await served.close()
  await delay(100) // the last messages leave in a turn of their own
  return reason === undefined ? 0 : 1
}

/** Milliseconds between two writes of the file for probes. */
const everyMs = 5000

/**
 * Keeps a file for probes, if one is configured: it is there from now on, and gets old if this process stands still.
 *
 * @returns a function that removes it
 * @throws `invalid_configuration` where it cannot be written
 */
function keepReadyFile(file: string | null): () => void {
  if (file === null) return () => {}
  const write = () => writeFileSync(file, '')
  orInvalid(write, `${unusable} written`)
  // If a write fails, the file gets old, and probes notice.
  const timer = setInterval(() => attempt(write), everyMs)
  timer.unref()
  return () => {
    clearInterval(timer)
    rmSync(file, { force: true })
  }
}

const unusable = '--ready-file: the file cannot be'
