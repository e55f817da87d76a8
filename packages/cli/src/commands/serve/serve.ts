import type { EngineDirectory } from '@cllm/core'
import { loadConfig } from '../../config/load-config.js'
import type { CllmConfig } from '../../config/options/schema.js'
import { stopped, unlessStopped } from '../../process/stop-signal.js'
import type { CommandIo } from '../command.js'
import { startServing } from './start-serving.js'

/**
 * `cllm serve`: runs until the signal is aborted, or the engine of a single model dies and cannot be
 * started again.
 */
export async function run(argv: readonly string[], io: CommandIo): Promise<number> {
  const { config, ...loaded } = loadConfig({ argv, env: io.env })
  const serving = await unlessStopped(io.signal, startServing({ ...loaded, config }, io))
  if (serving === undefined) return 0
  const { addresses, directory, logger } = serving
  const listening = addresses.map(({ url }) => `listening on ${url}\n`).join('')
  io.stdout.write(listening + whatNext(addresses[0]?.url ?? '', config, directory))

  const reason = await Promise.race([serving.death, stopped(io.signal)])
  if (reason !== undefined) {
    logger.error({ reason }, 'the engine died and cannot be restarted')
    io.stderr.write(`error: The engine died and cannot be restarted: ${reason}\n`)
    await serving.close()
    return 1
  }
  const seconds = config.server.drain_timeout
  logger.info({ seconds }, 'stopping: running requests may finish')
  await serving.close(seconds * 1000)
  return 0
}

/** Lines for newcomers: where to chat, where to send requests, which model answers, how to stop. */
function whatNext(url: string, { server, security }: CllmConfig, directory: EngineDirectory) {
  const at = url.replace(/\/\/(0\.0\.0\.0|\[::\])(?=:\d)/, '//localhost')
  const has = (protocol: string) =>
    server.protocols === 'all' || server.protocols.includes(protocol)
  const needsKey = security.api_key !== null || security.api_keys !== null
  const rows = [
    server.ui && has('web') ? ['chat', `${at}/`] : [],
    has('openai') ? ['API', `${at}/v1${needsKey ? ' (with an API key)' : ''}`] : [],
    ['model', modelsOf(directory)],
    ['stop', 'Ctrl-C'],
  ]
  return rows.map(([name = '', text]) => (text ? `  ${name.padEnd(7)}${text}\n` : '')).join('')
}

function modelsOf(directory: EngineDirectory): string {
  const names = directory.list()
  // The models of a front come with its workers.
  if (names.length === 0) return 'none yet'
  if (names.length > 1) return names.join(', ')
  const { slots, contextSize } = directory.status().info?.limits ?? {}
  return `${names[0]}${slots === undefined ? '' : `, ${slots} slots × ${contextSize} tokens`}`
}
