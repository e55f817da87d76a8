import { option } from './option.js'
import { resolvePath } from '../paths.js'
import { emptyToNone, decimal, integer, orNone, someTexts, text, toggle } from './value-format.js'

const file = (particulars: { readonly doc: string; readonly arg: string }) =>
  option<string | null>({
    default: null,
    format: orNone(text('a file')),
    placeholder: 'FILE',
    normalize: emptyToNone,
    resolve: resolvePath,
    ...particulars,
  })

/** The options for access and limits: the branch `security` of the schema. */
export const securityOptions = {
  api_key: option<string | null>({
    doc:
      'API key with the admin role. Prefer the variable: other users of the machine can ' +
      'see flags.',
    default: null,
    format: orNone(text('a key')),
    arg: 'api-key',
    placeholder: 'KEY',
    normalize: emptyToNone,
    isSecret: true,
  }),
  api_keys: file({
    doc: 'File of API keys, written by `cllm keys`; read again when it changes.',
    arg: 'api-keys',
  }),
  allow_unauthenticated: option({
    doc: 'Serve without API keys on an address that other machines can reach.',
    default: false,
    format: toggle(),
    arg: 'allow-unauthenticated',
  }),
  isolate_tenants: option({
    doc: 'Reuse cached prefixes within a tenant only; always on with API keys.',
    default: false,
    format: toggle(),
    arg: 'isolate-tenants',
  }),
  requests_per_minute: option({
    doc: 'Requests per minute for each key without its own limit; 0 is no limit.',
    default: 0,
    format: integer({ minimum: 0 }),
    arg: 'requests-per-minute',
    placeholder: 'COUNT',
  }),
  tokens_per_minute: option({
    doc:
      'Tokens per minute, prompt and answer, for each key without its own limit; 0 is no ' +
      'limit.',
    default: 0,
    format: integer({ minimum: 0 }),
    arg: 'tokens-per-minute',
    placeholder: 'TOKENS',
  }),
  cors_origins: option<readonly string[]>({
    doc:
      'Web origins that may use the API, such as `https://chat.example.org`; `localhost` is every page of ' +
      'this machine, `apps` the pages of desktop apps (both may without keys on a loopback address), `*` ' +
      'is all. A proxy on this machine may pass their names on as `Host`.',
    default: [],
    format: someTexts('origins'),
    arg: 'cors-origins',
    placeholder: 'ORIGINS',
  }),
  tls_cert: file({
    doc: 'Certificate chain in PEM format; with it, the server uses HTTPS.',
    arg: 'tls-cert',
  }),
  tls_key: file({ doc: 'Private key of the certificate, in PEM format.', arg: 'tls-key' }),
  max_connections: option({
    doc: 'Maximum number of open connections; further ones are closed.',
    default: 4096,
    format: integer({ minimum: 1 }),
    arg: 'max-connections',
    placeholder: 'COUNT',
  }),
  header_limit: option({
    doc: 'Largest request head, in bytes; a larger one is refused with 431.',
    default: 16 * 1024,
    format: integer({ minimum: 1024, maximum: 1024 * 1024 }),
    arg: 'header-limit',
    placeholder: 'BYTES',
  }),
  header_timeout: option({
    doc: 'Seconds for a client to send the head of a request.',
    default: 30,
    format: decimal({ minimum: 1, unit: 'seconds' }),
    arg: 'header-timeout',
    placeholder: 'SECONDS',
  }),
  body_timeout: option({
    doc: 'Seconds for a client to send the body of a request, or each MiB of a file for Ollama.',
    default: 120,
    format: decimal({ minimum: 1, unit: 'seconds' }),
    arg: 'body-timeout',
    placeholder: 'SECONDS',
  }),
  idle_timeout: option({
    doc: 'Seconds before an idle connection is closed.',
    default: 65,
    format: decimal({ minimum: 1, unit: 'seconds' }),
    arg: 'idle-timeout',
    placeholder: 'SECONDS',
  }),
  json_depth: option({
    doc: 'Maximum nesting of the JSON in a request.',
    default: 100,
    format: integer({ minimum: 4 }),
    arg: 'json-depth',
    placeholder: 'LEVELS',
  }),
}
