import { folderOption, option } from './option.js'
import { type ProtocolChoice, protocolChoice } from '../protocol-names.js'
import { decimal, format, integer, record, splitAtCommas, toggle } from './value-format.js'

const addresses = format<string>(
  'an address',
  (value) => typeof value === 'string' && splitAtCommas(value).length > 0,
)

/** The options of the HTTP server: the branch `server` of the schema. */
export const serverOptions = {
  host: option({
    doc:
      'Address to listen on, or several separated by commas, such as `127.0.0.1,::1`; ' +
      '`0.0.0.0` is every address of the machine.',
    default: '127.0.0.1',
    format: addresses,
    arg: 'host',
    placeholder: 'ADDRESS',
  }),
  port: option({
    doc: 'Port to listen on; 0 takes a free one.',
    default: 8080,
    format: integer({ minimum: 0, maximum: 65_535 }),
    arg: 'port',
    placeholder: 'PORT',
  }),
  body_limit: option({
    doc: 'Largest request body, in bytes; a larger one is refused with 413.',
    default: 1024 * 1024,
    format: integer({ minimum: 1024 }),
    arg: 'body-limit',
    placeholder: 'BYTES',
  }),
  bodies_limit: option({
    doc:
      'Total size of the bodies of all open requests, in bytes; above it, a body over 64 ' +
      'KiB is refused with 429. At least `body_limit`.',
    default: 256 * 1024 * 1024,
    format: integer({ minimum: 64 * 1024 }),
    arg: 'bodies-limit',
    placeholder: 'BYTES',
  }),
  stream_limit: option({
    doc:
      'Buffer per streamed answer for a slow client, in bytes; when it is full, the stream ' +
      'is cut off and the request cancelled.',
    default: 1024 * 1024,
    format: integer({ minimum: 1024 }),
    arg: 'stream-limit',
    placeholder: 'BYTES',
  }),
  protocols: option<ProtocolChoice>({
    doc: 'APIs to serve; a list in YAML. `all` is every built-in API and every API of a plugin.',
    default: 'all',
    format: protocolChoice,
    arg: 'protocols',
    placeholder: 'NAMES',
  }),
  protocol_options: option({
    doc:
      'Options by protocol, such as `{"openai": {"max_tokens": 500}}`; JSON in a flag or ' +
      'variable. The APIs that generate text accept the keys of `api.defaults`.',
    default: {},
    format: record(),
    arg: 'protocol-options',
    placeholder: 'JSON',
  }),
  batches: folderOption({
    doc:
      'Folder for files and batches (`/v1/files`, `/v1/batches`), which are computed while ' +
      'no client waits; it holds prompts and answers. Unset: no batches.',
    arg: 'batches',
  }),
  batch_share: option({
    doc:
      'Share of compute time for batches while clients are always busy, as long as none ' +
      'waits for a first token; with 0, batches run only while no client waits.',
    default: 0,
    format: decimal({ minimum: 0, maximum: 0.5 }),
    arg: 'batch-share',
    placeholder: 'SHARE',
  }),
  usage: folderOption({
    doc:
      'Folder for usage records per key, day and model, without any text: for `GET ' +
      '/admin/usage` and monthly limits of keys. Unset: usage is not recorded.',
    arg: 'usage',
  }),
  ui: option({
    doc: 'Serve the web page at `/ui`, and at `/` for browsers.',
    default: true,
    format: toggle(),
    arg: 'ui',
  }),
  drain_timeout: option({
    doc: 'Seconds for running requests to finish when the server is stopped.',
    default: 30,
    format: decimal({ minimum: 0, unit: 'seconds' }),
    arg: 'drain-timeout',
    placeholder: 'SECONDS',
  }),
}
