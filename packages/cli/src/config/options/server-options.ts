import { builtInProtocols } from '@cllm/http-koa'
import { resolveShared } from '../paths.js'
import { folder, option } from './option.js'
import { decimal, format, integer, orAuto, record, splitAtCommas, toggle } from './value-format.js'

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
    'Address to listen on, or several separated by commas, such as `127.0.0.1,::1`; ' +
      '`0.0.0.0` is every address of the machine.',
  ),
  port: option(integer(0, 65_535, 'PORT'), 8080).describe('Port to listen on; 0 takes a free one.'),
  body_limit: option(orAuto(integer(1024, Infinity, 'BYTES')), 'auto').describe(
    'Largest request body, in bytes; a larger one is refused with 413. `auto` is 1 MiB, or 32 MiB where ' +
      'a model has, or may have, a projector (`mmproj`) that can be used.',
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
      'no client waits; it holds prompts and answers. Unset: no batches.',
  ),
  batch_share: option(decimal(0, 0.5), 0, { placeholder: 'SHARE' }).describe(
    'Share of compute time for batches while clients are always busy, but none waits for a first ' +
      'token; 0: only while no client waits.',
  ),
  responses: folder({ resolve: resolveShared }).describe(
    'Folder, or `cluster` for its Redis, for responses and conversations (`/v1/responses`, ' +
      '`/v1/conversations`): what users wrote, encrypted with `cache.key`. Unset: none are kept.',
  ),
  responses_size: option(integer(1, Infinity, 'MIB'), 1024).describe(
    'Limit for `responses`, in MiB; the least recently used go first.',
  ),
  responses_age: option(integer(1, Infinity, 'DAYS'), 30).describe(
    'Days until an unused response or conversation is deleted.',
  ),
  usage: folder().describe(
    'Folder for usage records per key, day and model, without any text: for `GET ' +
      '/admin/usage` and monthly limits of keys. Unset: usage is not recorded.',
  ),
  ui: option(toggle(), true).describe('Serve the web page at `/ui`, and at `/` for browsers.'),
  drain_timeout: option(decimal(0, Infinity, 'seconds'), 30).describe(
    'Seconds for running requests to finish when the server is stopped.',
  ),
}
