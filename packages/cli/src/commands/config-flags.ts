import { CllmError } from '@cllm/core'
import { loadConfig, type LoadedConfig } from '../config/load-config.js'
import { modelsFolder } from '../models/cache-folder.js'
import type { CommandIo } from './command.js'
import { one, type Values } from './flags.js'
import { splitAtCommas } from '../config/options/value-format.js'
import type { ServerAddress } from './server/server-client.js'

/** The flag of the commands that manage models. */
export const configFlag = one(
  'FILE',
  'The YAML file of `cllm serve`, for its `models.cache`; also CLLM_CONFIG',
)

/**
 * The configuration that `cllm serve` would have, as far as these flags say; those that are not given are left out.
 */
export function configFrom(
  flags: Readonly<Record<string, string | undefined>>,
  { env }: CommandIo,
): LoadedConfig {
  const argv = Object.entries(flags).flatMap(([name, value]) =>
    value === undefined ? [] : [`--${name}`, value],
  )
  return loadConfig({ argv, env, listens: false })
}

/** The flags of the commands that talk to a cluster. */
export const clusterFlags = {
  cluster: one('URL', 'Redis or Valkey server of the cluster; also CLLM_CLUSTER'),
  'cluster-ca': one('FILE', "Checks a `rediss://` server's certificate; also CLLM_CLUSTER_CA"),
  config: one('FILE', 'The YAML file of `cllm serve`, for what is not given here'),
} as const

/** {@link modelsFolder} by the YAML file that a flag names. */
export const folderFrom = ({ config }: { readonly config: string | undefined }, io: CommandIo) =>
  modelsFolder(configFrom({ config }, io), io.env)

/** The flags of the commands that talk to a running server. */
export const serverFlags = {
  url: one(
    'URL',
    'URL of the server (default: the address of `cllm serve` on this machine)',
    serverUrl,
  ),
  'api-key': one('KEY', 'API key; also CLLM_API_KEY'),
  config: one('FILE', 'YAML file of `cllm serve`, for its address; also CLLM_CONFIG'),
} as const

/** The server that the flags name: by default where `cllm serve` would listen on this machine. */
export function serverAddress(
  { url, 'api-key': key, config: file }: Values<typeof serverFlags>,
  io: CommandIo,
): ServerAddress {
  const { server, security } = configFrom({ config: file }, io).config
  const [first = ''] = splitAtCommas(server.host)
  const host = ['0.0.0.0', '::'].includes(first) ? '127.0.0.1' : first
  const scheme = security.tls_cert === null ? 'http' : 'https'
  const own = `${scheme}://${host.includes(':') ? `[${host}]` : host}:${server.port}`
  if (url === undefined && !URL.canParse(own)) {
    const message = `server.host: expected an address, got "${server.host}"; --url URL names a server`
    throw new CllmError('invalid_configuration', message)
  }
  return { url: url ?? new URL(own), apiKey: key ?? security.api_key ?? undefined }
}

/** The address of a server: an http or https URL, without a `/v1` behind it. */
function serverUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || !/^https?:$/.test(url.protocol)) throw new Error('expected an http URL')
  url.pathname = url.pathname.replace(/\/(v1\/?)?$/, '')
  return url
}
