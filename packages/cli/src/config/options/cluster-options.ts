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
      'Redis (6.2 or later) or Valkey server of a cluster: `redis://user:password@host:port/db`, ' +
      'or `rediss://` for TLS. Without it, this machine serves alone.',
    default: null,
    format: orNone(redisUrl()),
    arg: 'cluster',
    placeholder: 'URL',
    normalize: emptyToNone,
    isSecret: true,
  }),
  ca: option<string | null>({
    doc: "Certificates in PEM format that a `rediss://` server's is checked with, in place of the system's.",
    default: null,
    format: orNone(text('a file')),
    arg: 'cluster-ca',
    placeholder: 'FILE',
    normalize: emptyToNone,
    resolve: resolvePath,
  }),
  keys: option({
    doc:
      'API keys of the whole cluster, on its server, written by `cllm keys --cluster URL`. They are every ' +
      "front's within a second.",
    default: false,
    format: toggle(),
    arg: 'cluster-keys',
  }),
  batches: option({
    doc:
      'Files and batches (`/v1/files`, `/v1/batches`) of the whole cluster, on its server, which then ' +
      'holds prompts and answers and needs persistence. Every front computes lines of them.',
    default: false,
    format: toggle(),
    arg: 'cluster-batches',
  }),
  drain_migrate: option({
    doc:
      'A worker that is stopped or drained hands its running requests to other workers at once, where ' +
      'these continue them exactly, instead of letting them finish.',
    default: false,
    format: toggle(),
    arg: 'drain-migrate',
  }),
  ready_file: option<string | null>({
    doc:
      'File that `cllm worker` makes once it serves, writes again every 5 s, and removes when it is stopped or ' +
      'drained: for probes, as a worker has no HTTP.',
    default: null,
    format: orNone(text('a file')),
    arg: 'ready-file',
    placeholder: 'FILE',
    normalize: emptyToNone,
    resolve: resolvePath,
  }),
  workers: option({
    doc:
      'Engines of each model on this machine, each a process with `--slots` of its own; the router ' +
      'chooses among them. They share the cores.',
    default: 1,
    format: integer({ minimum: 1, maximum: 64 }),
    arg: 'workers',
    placeholder: 'COUNT',
  }),
  router: option({
    doc: "What chooses each request's worker: a built-in router, or a plugin's.",
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
