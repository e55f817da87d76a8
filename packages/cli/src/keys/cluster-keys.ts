import { type RedisBus, SharedText } from '@cllm/cluster'
import { type Logger, systemClock } from '@cllm/core'
import { type ApiKey, keyRing, parseKeys } from '@cllm/http-koa'
import { keyStore } from './key-store.js'
import { type KeySources, openKeyRing, type OpenKeyRing } from './open-key-ring.js'

/** The name of the keys on the cluster's server. */
const sharedKeys = 'keys'

/**
 * Opens the keys of a cluster, beside those of this front. They stay valid while its server is away.
 *
 * @throws `cluster_unavailable`
 */
export async function openClusterKeys(
  bus: RedisBus,
  { apiKey, file }: KeySources,
  logger: Logger,
): Promise<OpenKeyRing> {
  const own = openKeyRing({ apiKey, file }, logger)
  let shared: readonly ApiKey[] = []
  const close = await new SharedText(bus, sharedKeys).watch(systemClock, logger, (text) => {
    try {
      shared = text === null ? [] : parseKeys(text, sharedKeys)
      logger.info({ keys: shared.length }, "read the cluster's API keys")
    } catch (error) {
      logger.error({ err: error }, "the cluster's API keys cannot be read; they stay as they were")
    }
  })
  const ring = keyRing(() => shared)
  return {
    find: (secret) => ring.find(secret) ?? own?.find(secret),
    withHash: (hash) => ring.withHash(hash) ?? own?.withHash(hash),
    store: keyStore({
      read: async () => await readClusterKeys(bus),
      update: async (change) => await updateClusterKeys(bus, change),
    }),
    close() {
      close()
      own?.close()
    },
  }
}

/**
 * Reads the keys of a cluster.
 *
 * @throws `cluster_unavailable`
 */
export async function readClusterKeys(bus: RedisBus): Promise<readonly ApiKey[]> {
  const text = await new SharedText(bus, sharedKeys).read()
  return text === null ? [] : parseKeys(text, sharedKeys)
}

/**
 * Changes the keys of a cluster.
 *
 * @throws `cluster_unavailable`, and what `change` throws
 */
export async function updateClusterKeys(
  bus: RedisBus,
  change: (keys: readonly ApiKey[]) => readonly ApiKey[],
): Promise<void> {
  await new SharedText(bus, sharedKeys).update((text) => {
    const keys = change(text === null ? [] : parseKeys(text, sharedKeys))
    return JSON.stringify({ keys })
  })
}
