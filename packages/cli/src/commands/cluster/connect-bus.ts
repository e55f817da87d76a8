import { readFileSync } from 'node:fs'
import { RedisBus } from '@cllm/cluster'
import type { Logger } from '@cllm/core'
import { orInvalid } from '../../config/messages.js'
import type { CllmConfig } from '../../config/options/schema.js'

/**
 * Connects to the server of the configured cluster.
 *
 * @throws `cluster_unavailable`, and `invalid_configuration` for a file that cannot be read
 */
export async function connectBus(
  { url, ca }: CllmConfig['cluster'],
  logger?: Logger,
): Promise<RedisBus> {
  return await RedisBus.connect({
    url: url ?? '',
    ...(ca !== null && {
      ca: orInvalid(
        () => readFileSync(ca, 'utf8'),
        (reason) => `--cluster-ca: the file cannot be read: ${reason}`,
      ),
    }),
    ...(logger && { logger }),
  })
}

/** {@link connectBus}, and closes it after use. */
export async function usingBus<T>(
  cluster: CllmConfig['cluster'],
  use: (bus: RedisBus) => Promise<T>,
): Promise<T> {
  const bus = await connectBus(cluster)
  try {
    return await use(bus)
  } finally {
    await bus.close()
  }
}
