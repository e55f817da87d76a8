import { file, option } from './option.js'
import { emptyToNone, format, integer, orNone, record, text, toggle } from './value-format.js'

/** The URL of a Redis server, as its client reads it. */
const redisUrl = () =>
  format<string>(
    'a URL such as redis://host:6379, or rediss:// for TLS',
    (value) => {
      if (typeof value !== 'string' || !URL.canParse(value)) return false
      const { protocol, hostname, pathname } = new URL(value)
      return /^rediss?:$/.test(protocol) && hostname !== '' && /^\/?\d*$/.test(pathname)
    },
    { placeholder: 'URL' },
  )

/** The options of a cluster: the branch `cluster` of the schema. */
export const clusterOptions = {
  url: option(orNone(redisUrl()), null, {
    flag: 'cluster',
    normalize: emptyToNone,
    isSecret: true,
  }).describe(
    'Redis (6.2 or later) or Valkey server of the cluster: ' +
      '`redis://user:password@host:port/db`, or `rediss://` for TLS. Unset: this machine ' +
      'serves alone.',
  ),
  ca: file({ flag: 'cluster-ca' }).describe(
    'PEM file with the certificate authorities for a `rediss://` server, instead of the ' +
      "system's.",
  ),
  keys: option(toggle(), false, { flag: 'cluster-keys' }).describe(
    "Take API keys from the cluster's server, where `cllm keys --cluster URL` writes " +
      'them. All fronts see changes within a second.',
  ),
  batches: option(toggle(), false, { flag: 'cluster-batches' }).describe(
    "Keep files and batches (`/v1/files`, `/v1/batches`) on the cluster's server, which " +
      'then holds prompts and answers and needs persistence. Every front computes lines of ' +
      'every batch.',
  ),
  drain_migrate: option(toggle(), false).describe(
    'When a worker is stopped or drained, hand its running requests to other workers at once, which ' +
      'continue them exactly.',
  ),
  ready_file: file().describe(
    'File for readiness probes: `cllm worker` creates it when it serves, writes it again every 5 s, ' +
      'and deletes it when it is stopped or drained.',
  ),
  workers: option(integer(1, 64), 1).describe(
    'Engine processes per model on this machine, each with `--slots` slots; the router ' +
      'distributes requests among them. They share the cores.',
  ),
  router: option(text('a name'), 'prefix-wait').describe(
    "Router that picks a worker for each request: a built-in one, or a plugin's.",
  ),
  router_options: option(record(), {}).describe(
    'Options of the router; JSON in a flag or variable.',
  ),
}
