import { folderOption } from './folder-option.js'
import { type ProtocolChoice, protocolChoice } from '../protocol-names.js'
import { option } from './option.js'
import { decimal, format, integer, record, splitAtCommas, toggle } from './value-format.js'

const addresses = format<string>(
  'an address',
  (value) => typeof value === 'string' && splitAtCommas(value).length > 0,
)

/** The options of the HTTP server: the branch `server` of the schema. */
export const serverOptions = {
  host: option({
    doc:
      'Address to listen on, or several between commas, such as `127.0.0.1,::1`; `0.0.0.0` is all ' +
      'addresses of the machine.',
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
      'Bytes of the bodies of all requests in progress together; beyond it, a body of more than ' +
      '64 KiB is refused with 429. At least `body_limit`.',
    default: 256 * 1024 * 1024,
    format: integer({ minimum: 64 * 1024 }),
    arg: 'bodies-limit',
    placeholder: 'BYTES',
  }),
  stream_limit: option({
    doc:
      'Bytes of a streamed answer that may be buffered for a slow client; beyond it, the ' +
      'stream is cut off and the request cancelled.',
    default: 1024 * 1024,
    format: integer({ minimum: 1024 }),
    arg: 'stream-limit',
    placeholder: 'BYTES',
  }),
  protocols: option<ProtocolChoice>({
    doc:
      'The APIs to serve; a list in YAML. `all` is every built-in API and every API that ' +
      'plugins add.',
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
      'Folder for files and batches (`/v1/files`, `/v1/batches`), which are computed while no client ' +
      'waits; it holds prompts and answers. Without one there are no batches.',
    arg: 'batches',
  }),
  batch_share: option({
    doc:
      'Share of the time that batches get where clients never stop, while none waits for its first token; ' +
      'with 0 they are computed only while no client waits for anything.',
    default: 0,
    format: decimal({ minimum: 0, maximum: 0.5 }),
    arg: 'batch-share',
    placeholder: 'SHARE',
  }),
  usage: folderOption({
    doc:
      'Folder for what each key uses by day and model, without any text: `GET /admin/usage`, and the ' +
      "keys' limits of a month. Without one usage is not noted.",
    arg: 'usage',
  }),
  ui: option({
    doc: 'The web page at `/ui`, and at `/` for browsers; without it only the APIs are served.',
    default: true,
    format: toggle(),
    arg: 'ui',
  }),
  drain_timeout: option({
    doc: 'Seconds that running requests get to finish when the server is stopped.',
    default: 30,
    format: decimal({ minimum: 0, unit: 'seconds' }),
    arg: 'drain-timeout',
    placeholder: 'SECONDS',
  }),
}
