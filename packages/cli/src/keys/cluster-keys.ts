import { type RedisBus, SharedText } from '@cllm/cluster'
import { type Logger, systemClock } from '@cllm/core'
import { type ApiKey, keyRing, type KeyStore, parseKeys } from '@cllm/http-koa'
import { keyStore, type KeySources, openKeyRing, type OpenKeyRing } from './keys.js'

/** The name of the keys on the cluster's server. */
const sharedKeys = 'keys'

const keysIn = (text: string | null): readonly ApiKey[] =>
  text === null ? [] : parseKeys(text, sharedKeys)

/** The keys that this version can read: a newer version's role or limit must not lock out the owners of other keys. */
function readableIn(text: string | null, logger: Logger): readonly ApiKey[] {
  const { keys } = JSON.parse(text ?? '{"keys": []}') as { readonly keys: readonly ApiKey[] }
  return keys.flatMap((key) => {
    try {
      return keysIn(JSON.stringify({ keys: [key] }))
    } catch (error) {
      const about = { err: error, key: key?.name }
      logger.error(about, 'a key of the cluster is refused: this version cannot read it')
      return []
    }
  })
}

/**
 * Opens the keys of a cluster, besides those of this front. They stay valid while the cluster's server is unreachable.
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
      shared = readableIn(text, logger)
      logger.info({ keys: shared.length }, "read the cluster's API keys")
    } catch (error) {
      logger.error({ err: error }, "the cluster's API keys cannot be read; they stay as they were")
    }
  })
  const ring = keyRing(() => shared)
  return {
    find: (secret) => ring.find(secret) ?? own?.find(secret),
    withHash: (hash) => ring.withHash(hash) ?? own?.withHash(hash),
    store: clusterKeys(bus),
    close() {
      close()
      own?.close()
    },
  }
}

/** The keys of a cluster; its methods throw `cluster_unavailable`, too. */
export function clusterKeys(bus: RedisBus): KeyStore {
  const shared = new SharedText(bus, sharedKeys)
  return keyStore({
    read: async () => keysIn(await shared.read()),
    update: async (change) =>
      await shared.update((text) => JSON.stringify({ keys: change(keysIn(text)) })),
  })
}
