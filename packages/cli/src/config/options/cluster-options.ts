import { option } from './option.js'
import { emptyToNone, orNone, record, text } from './value-format.js'

/** The options of a cluster: the branch `cluster` of the schema. */
export const clusterOptions = {
  url: option<string | null>({
    doc:
      'Redis (6.2 or later) or Valkey server of a cluster: `redis://user:password@host:port/db`, ' +
      'or `rediss://` for TLS. Without it, this machine serves alone.',
    default: null,
    format: orNone(text('a URL')),
    arg: 'cluster',
    placeholder: 'URL',
    normalize: emptyToNone,
    isSecret: true,
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
