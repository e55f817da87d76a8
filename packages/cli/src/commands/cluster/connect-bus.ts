import { readFileSync } from 'node:fs'
import { RedisBus } from '@cllm/cluster'
import { CllmError, type Logger } from '@cllm/core'
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
    ...(ca !== null && { ca: read(ca) }),
    ...(logger && { logger }),
  })
}

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    const message = `--cluster-ca: the file cannot be read: ${reason}`
    throw new CllmError('invalid_configuration', message, { cause })
  }
}
