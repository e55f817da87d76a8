import { resolvePath } from '../paths.js'
import { option } from './option.js'
import { emptyToNone, format, integer, orNone, record, text, toggle } from './value-format.js'

/** The URL of a Redis server, as its client reads it. */
const redisUrl = () =>
  format<string>('a URL such as redis://host:6379, or rediss:// for TLS', (value) => {
    if (typeof value !== 'string' || !URL.canParse(value)) return false
    const { protocol, hostname, pathname } = new URL(value)
    return /^rediss?:$/.test(protocol) && hostname !== '' && /^\/?\d*$/.test(pathname)
  })

/** The options of a cluster: the branch `cluster` of the schema. */
export const clusterOptions = {
  url: option<string | null>({
    doc:
      'Redis (6.2 or later) or Valkey server of the cluster: ' +
      '`redis://user:password@host:port/db`, or `rediss://` for TLS. Unset: this machine ' +
      'serves alone.',
    default: null,
    format: orNone(redisUrl()),
    arg: 'cluster',
    placeholder: 'URL',
    normalize: emptyToNone,
    isSecret: true,
  }),
  ca: option<string | null>({
    doc:
      'PEM file with the certificate authorities for a `rediss://` server, instead of the ' +
      "system's.",
    default: null,
    format: orNone(text('a file')),
    arg: 'cluster-ca',
    placeholder: 'FILE',
    normalize: emptyToNone,
    resolve: resolvePath,
  }),
  keys: option({
    doc:
      "Take API keys from the cluster's server, where `cllm keys --cluster URL` writes " +
      'them. All fronts see changes within a second.',
    default: false,
    format: toggle(),
    arg: 'cluster-keys',
  }),
  batches: option({
    doc:
      "Keep files and batches (`/v1/files`, `/v1/batches`) on the cluster's server, which " +
      'then holds prompts and answers and needs persistence. Every front computes lines of ' +
      'every batch.',
    default: false,
    format: toggle(),
    arg: 'cluster-batches',
  }),
  drain_migrate: option({
    doc:
      'When a worker is stopped or drained, hand its running requests to other workers at ' +
      'once instead of letting them finish. The other workers continue them exactly.',
    default: false,
    format: toggle(),
    arg: 'drain-migrate',
  }),
  ready_file: option<string | null>({
    doc:
      'File for readiness probes, as a worker has no HTTP: `cllm worker` creates it when ' +
      'it serves, writes it again every 5 s, and deletes it when it is stopped or drained.',
    default: null,
    format: orNone(text('a file')),
    arg: 'ready-file',
    placeholder: 'FILE',
    normalize: emptyToNone,
    resolve: resolvePath,
  }),
  workers: option({
    doc:
      'Engine processes per model on this machine, each with `--slots` slots; the router ' +
      'distributes requests among them. They share the cores.',
    default: 1,
    format: integer({ minimum: 1, maximum: 64 }),
    arg: 'workers',
    placeholder: 'COUNT',
  }),
  router: option({
    doc: "Router that picks a worker for each request: a built-in one, or a plugin's.",
    default: 'prefix-wait',
    format: text('a name'),
    arg: 'router',
    placeholder: 'NAME',
  }),
  router_options: option({
    doc: 'Options of the router; JSON in a flag or variable.',
    default: {},
    format: record(),
    arg: 'router-options',
    placeholder: 'JSON',
  }),
}
