import { file, option } from './option.js'
import { emptyToNone, decimal, integer, orNone, someTexts, text, toggle } from './value-format.js'

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
      'and on the ports 80 and 443, and `HOST:PORT`, also at a private address. Unset: a URL is refused.',
  ),
  tls_cert: file().describe('Certificate chain in PEM format; with it, the server uses HTTPS.'),
  tls_key: file().describe('Private key of the certificate, in PEM format.'),
  max_connections: option(integer(1), 4096).describe(
    'Maximum number of open connections; further ones are closed.',
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
