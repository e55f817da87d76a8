import { builtInProtocols } from '@cllm/http-koa'
import { resolveShared } from '../paths.js'
import { folder, option, file } from './option.js'
import {
  decimal,
  format,
  integer,
  orAuto,
  record,
  splitAtCommas,
  toggle,
  emptyToNone,
  orNone,
  someTexts,
  text,
} from './value-format.js'

const addresses = format<string>(
  'an address',
  (value) => typeof value === 'string' && splitAtCommas(value).length > 0,
  { placeholder: 'ADDRESS' },
)

const isName = (value: unknown): boolean => typeof value === 'string' && /^[^,\s]+$/.test(value)

/** The APIs to serve: all that are registered, or the named ones. Plug-ins may add names. */
const protocols = format<readonly string[] | 'all'>(
  `all, or a list of ${builtInProtocols.map(({ name }) => name).join(', ')} and names from plugins`,
  (value) => value === 'all' || (Array.isArray(value) && value.every(isName)),
  {
    parse: (text) => (text.trim() === 'all' ? 'all' : splitAtCommas(text)),
    placeholder: 'NAMES',
  },
)

/** The options of the HTTP server: the branch `server` of the schema. */
export const serverOptions = {
  host: option(addresses, '127.0.0.1').describe(
    'Addresses to listen on, such as `127.0.0.1,::1`; `0.0.0.0`: all of the machine.',
  ),
  port: option(integer(0, 65_535, 'PORT'), 8080).describe('Port to listen on; 0 takes a free one.'),
  body_limit: option(orAuto(integer(1024, Infinity, 'BYTES')), 'auto').describe(
    'Largest request body, in bytes; a larger one is refused with 413. `auto`: 1 MiB, or 32 where ' +
      'a model may have a usable projector (`mmproj`).',
  ),
  bodies_limit: option(integer(64 * 1024, Infinity, 'BYTES'), 256 * 1024 * 1024).describe(
    'Bytes of the bodies of all open requests; above it, a body over 64 KiB is refused with 429. At ' +
      'least `body_limit`.',
  ),
  stream_limit: option(integer(1024, Infinity, 'BYTES'), 1024 * 1024).describe(
    'Buffer per streamed answer for a slow client, in bytes; when it is full, the stream ' +
      'is cut off and the request cancelled.',
  ),
  protocols: option(protocols, 'all').describe(
    "APIs to serve; a list in YAML. `all` includes plugins'.",
  ),
  protocol_options: option(record(), {}).describe(
    'Options by protocol, such as `{"openai": {"max_tokens": 500}}`; JSON in a flag or ' +
      'variable. The APIs that generate text accept the keys of `api.defaults`.',
  ),
  batches: folder().describe(
    'Folder for files and batches (`/v1/files`, `/v1/batches`), which are computed while ' +
      'no client waits; it holds prompts and answers.',
  ),
  batch_share: option(decimal(0, 0.5), 0, { placeholder: 'SHARE' }).describe(
    'Share of compute time for batches while clients are always busy, but none waits for a first ' +
      'token; 0: only while no client waits.',
  ),
  responses: folder({ resolve: resolveShared }).describe(
    'Folder, or `cluster` for its Redis, for responses and conversations (`/v1/responses`, ' +
      '`/v1/conversations`): what users wrote, encrypted with `cache.key`.',
  ),
  responses_size: option(integer(1, Infinity, 'MIB'), 1024).describe(
    'Limit for `responses`, in MiB; the least recently used go first.',
  ),
  responses_age: option(integer(1, Infinity, 'DAYS'), 30).describe(
    'Days until an unused response or conversation is deleted.',
  ),
  usage: folder().describe(
    'Folder for usage records per key, day and model, without any text: for `GET ' +
      '/admin/usage` and monthly limits of keys.',
  ),
  ui: option(toggle(), true).describe('Serve the web page at `/ui`, and at `/` for browsers.'),
  drain_timeout: option(decimal(0, Infinity, 'seconds'), 30).describe(
    'Seconds for running requests to finish when the server is stopped.',
  ),
}

/** The options for access and limits: the branch `security` of the schema. */
export const securityOptions = {
  api_key: option(orNone(text('a key')), null, { normalize: emptyToNone, isSecret: true }).describe(
    'API key with the admin role. Prefer the variable: other users of the machine can ' +
      'see flags.',
  ),
  api_keys: file().describe(
    'File of API keys, written by `cllm keys`; read again when it changes.',
  ),
  allow_unauthenticated: option(toggle(), false).describe(
    'Serve without API keys on an address that other machines can reach.',
  ),
  isolate_tenants: option(toggle(), false).describe(
    'Reuse cached prefixes within a tenant only; always on with API keys.',
  ),
  requests_per_minute: option(integer(0), 0).describe(
    'Requests per minute for each key without its own limit; 0 is no limit.',
  ),
  tokens_per_minute: option(integer(0, Infinity, 'TOKENS'), 0).describe(
    'Tokens per minute, prompt and answer, for each key without its own limit; 0 is no limit.',
  ),
  cors_origins: option(someTexts('origins', 'ORIGINS'), []).describe(
    'Web origins that may use the API, such as `https://chat.example.org`; `localhost` is every page ' +
      'of this machine, `apps` those of desktop apps (both may anyway without keys on a loopback ' +
      'address), `*` is all. A proxy on this machine may pass their names on as `Host`.',
  ),
  media_urls: option(someTexts('hosts', 'HOSTS'), []).describe(
    'Servers from which images and sounds in prompts are fetched: `HOST` or `*` for all of them, at public addresses ' +
      'and on the ports 80 and 443, and `HOST:PORT`, also at a private address.',
  ),
  tls_cert: file().describe('Certificate chain in PEM format; with it, the server uses HTTPS.'),
  tls_key: file().describe('Private key of the certificate, in PEM format.'),
  max_connections: option(integer(1), 4096).describe(
    'Most open connections; further ones are closed.',
  ),
  header_limit: option(integer(1024, 1024 * 1024, 'BYTES'), 16 * 1024).describe(
    'Largest request head, in bytes; a larger one is refused with 431.',
  ),
  header_timeout: option(decimal(1, Infinity, 'seconds'), 30).describe(
    'Seconds for a client to send the head of a request.',
  ),
  body_timeout: option(decimal(1, Infinity, 'seconds'), 120).describe(
    'Seconds for a client to send the body of a request, or each MiB of a file.',
  ),
  idle_timeout: option(decimal(1, Infinity, 'seconds'), 65).describe(
    'Seconds before an idle connection is closed.',
  ),
  json_depth: option(integer(4, Infinity, 'LEVELS'), 100).describe(
    'Maximum nesting of the JSON in a request.',
  ),
}

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
      '`redis://user:password@host:port/db`, or `rediss://` for TLS.',
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
    "Keep files and batches on the cluster's server, which " +
      'then holds prompts and answers and needs persistence. Every front computes lines of ' +
      'every batch.',
  ),
  drain_migrate: option(toggle(), false).describe(
    'Hand the requests of a worker that is stopped or drained to others at once, which continue them exactly.',
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
    "What picks a worker for each request; also a plugin's.",
  ),
  router_options: option(record(), {}).describe(
    'Options of the router; JSON in a flag or variable.',
  ),
}
