import { loadConfig } from '../../config/load-config.js'
import { stopped } from '../../process/stop-signal.js'
import type { CommandIo } from '../command-io.js'
import { startServing } from './start-serving.js'
import { whatNext } from './what-next.js'

/**
 * `cllm serve`: runs until the signal is aborted, or the engine of a single model dies and cannot be
 * started again.
 */
export async function serve(argv: readonly string[], io: CommandIo): Promise<number> {
  const { config, ...loaded } = loadConfig({ argv, env: io.env })
  const serving = await startServing({ ...loaded, config }, io).catch((error: unknown) => {
    if (io.signal.aborted) return undefined
    throw error
  })
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
