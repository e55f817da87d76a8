import { CllmError, defined } from '@cllm/core'
import { type ApiKey, keyRoles, type KeyStore } from '@cllm/http-koa'
import { textTable } from '../process/terminal.js'
import { readKeyFile, updateKeyFile, keyStore } from '../keys/keys.js'
import { type CommandIo, tell, defineCommand } from './command.js'
import { one, toggle, type Values, wrong, integer, orNone, word } from './flags.js'
import { clusterFlags, configFrom } from './config-flags.js'

const fileFlags = {
  'api-keys': one('FILE', 'The key file; also CLLM_API_KEYS'),
  ...clusterFlags,
}

/** `cllm keys add` */
export const addKey = defineCommand({
  usage: 'keys add <name>',
  doc: `
Creates an API key, writes its hash to the key file and prints the key, which cannot be shown again.
A running server with this file accepts the key within a second.`,
  flags: {
    tenant: one('NAME', "Tenant of the key's requests (default: the name of the key)"),
    role: one('ROLE', 'user generates, metrics scrapes, admin does all', word(...keyRoles), 'user'),
    'requests-per-minute': one('COUNT', "Limit for this key, instead of the server's", integer(1)),
    'tokens-per-minute': one('TOKENS', "Limit for this key, instead of the server's", integer(1)),
    'tokens-per-month': one('TOKENS', 'Monthly limit (UTC), on servers with --usage', integer(1)),
    ...fileFlags,
  },
  async run({ flags, words: [name = ''] }, io) {
    const { tenant = name, role } = flags
    await withKeys(flags, io, async (store, where) => {
      io.stdout.write(`${await store.add({ name, tenant, role, ...limitsIn(flags) })}\n`)
      io.stderr.write(`added to ${where}; the key cannot be shown again\n`)
    })
  },
})

/** `cllm keys list` */
export const listKeys = defineCommand({
  usage: 'keys list',
  doc: 'Lists the names, tenants, roles and limits of the keys in the file.',
  flags: { json: toggle('Print JSON'), ...fileFlags },
  async run({ flags }, io) {
    const all = await withKeys(flags, io, async (store) => await store.list())
    const keys = all.map((key) => ({ ...key, hash: undefined }))
    return tell(io, flags.json, keys, () => table(keys))
  },
})

const newLimit = orNone(integer(1))
/** `cllm keys limit` */
export const limitKey = defineCommand({
  usage: 'keys limit <name>',
  doc: `
Changes limits of a key in the file; the other limits stay. A running server with this file
applies them within a second.`,
  flags: {
    'requests-per-minute': one('COUNT', 'Limit, or none for the server default', newLimit),
    'tokens-per-minute': one('TOKENS', 'Limit, or none for the server default', newLimit),
    'tokens-per-month': one('TOKENS', 'Monthly limit (UTC), or none', newLimit),
    ...fileFlags,
  },
  async run({ flags, words: [name = ''] }, io) {
    const changes = limitsIn(flags)
    if (Object.keys(changes).length === 0) {
      throw wrong('expected --requests-per-minute, --tokens-per-minute or --tokens-per-month')
    }
    await withKeys(flags, io, async (store) => await store.limit(name, changes))
    io.stderr.write(`changed the limits of ${name}\n`)
  },
})

/** `cllm keys revoke` */
export const revokeKey = defineCommand({
  usage: 'keys revoke <name>',
  doc: 'Removes a key from the file. A running server with this file refuses it within a second.',
  flags: fileFlags,
  async run({ flags, words: [name = ''] }, io) {
    await withKeys(flags, io, async (store) => await store.remove(name))
    io.stderr.write(`revoked ${name}\n`)
  },
})

type LimitFlag = 'requests-per-minute' | 'tokens-per-minute' | 'tokens-per-month'

/** The limits that are given. */
const limitsIn = <T>(flags: Readonly<Record<LimitFlag, T>>) =>
  defined({
    requestsPerMinute: flags['requests-per-minute'],
    tokensPerMinute: flags['tokens-per-minute'],
    tokensPerMonth: flags['tokens-per-month'],
  })

/**
 * Uses the keys of a cluster if a flag gives its URL, or the configuration has a URL and no file; otherwise those of
 * the file. `where` names the place.
 */
async function withKeys<T>(
  flags: Values<typeof fileFlags>,
  io: CommandIo,
  use: (store: KeyStore, where: string) => Promise<T>,
): Promise<T> {
  const { config, cluster: url, 'api-keys': keys, 'cluster-ca': ca } = flags
  const given = { config, 'api-keys': keys, cluster: url, 'cluster-ca': ca }
  const { cluster, security } = configFrom(given, io).config
  try {
    if (cluster.url !== null && (url !== undefined || security.api_keys === null)) {
      const { usingBus } = await import('./cluster/join-cluster.js')
      const { clusterKeys } = await import('../keys/cluster-keys.js')
      return await usingBus(cluster, async (bus) => await use(clusterKeys(bus), 'the cluster'))
    }
    const file = security.api_keys
    if (file === null) throw wrong('expected --api-keys FILE, or --cluster URL')
    const store = keyStore({
      read: async () => readKeyFile(file),
      update: async (change) => await updateKeyFile(file, io.signal, change),
    })
    return await use(store, file)
  } catch (error) {
    throw CllmError.isInstance(error) && error.code === 'invalid_request'
      ? wrong(error.message)
      : error
  }
}

function table(keys: readonly Omit<ApiKey, 'hash'>[]): string {
  const limits = ['requests/min', 'tokens/min', 'tokens/month']
  const rows = keys.map((key) => {
    const { name, tenant, role, requestsPerMinute, tokensPerMinute, tokensPerMonth } = key
    const minute = [requestsPerMinute ?? 'server', tokensPerMinute ?? 'server']
    return [name, tenant, role, ...minute, tokensPerMonth ?? 'none']
  })
  return textTable(['name', 'tenant', 'role', ...limits], rows)
}
