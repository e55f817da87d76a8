import { CllmError, definePlugin, type PluginRegistry } from '@cllm/core'
import { admin } from './admin/admin-protocol.js'
import { anthropic } from './anthropic/anthropic-protocol.js'
import { batches } from './batches/batches-protocol.js'
import { llamaServer } from './llama-server/llama-server-protocol.js'
import { mcp } from './mcp/mcp-protocol.js'
import { metrics } from './metrics/metrics-protocol.js'
import { models } from './models/models-protocol.js'
import { native } from './native/native-protocol.js'
import { ollama } from './ollama/ollama-protocol.js'
import { openAi } from './openai/openai-protocol.js'
import { openApi } from '../openapi/openapi-protocol.js'
import { usage } from './usage/usage-protocol.js'
import { web } from './web/web-protocol.js'
import { z } from 'zod'
import type { ProtocolDefaults } from '../request/build-request.js'
import { type KoaProtocolDefinition, PROTOCOLS, Services } from '../routes/define-protocol.js'
import type { KoaProtocol } from '../routes/koa-context.js'
import type { BoundRoute } from '../routes/route.js'

/** The protocols of this package, in the order in which they are served. */
export const builtInProtocols: readonly KoaProtocolDefinition[] = Object.freeze([
  web,
  native,
  anthropic,
  batches,
  mcp,
  openAi,
  ollama,
  llamaServer,
  models,
  openApi,
  admin,
  usage,
  metrics,
])

/** Registers {@link builtInProtocols}; load it before plug-ins that replace one of them. */
export const protocolsPlugin = definePlugin({
  name: 'protocols',
  apiVersion: 1,
  register(host) {
    for (const protocol of builtInProtocols) host.registerProtocol(protocol)
  },
})

/** The defaults of every route that generates; `docs/defaults.md` is made from this table. */
export const protocolDefaults: Readonly<Record<string, ProtocolDefaults>> = Object.freeze(
  Object.assign({}, ...builtInProtocols.map(({ defaults }) => defaults)),
)

/** Which protocols of a registry are made, and with what. */
export interface KoaProtocolsOptions {
  /** In this order; where two claim a path, the first one has it. Default: every registered one. */
  readonly names?: readonly string[]
  /** Options by the protocol's name; those of a protocol that is not made are not used. */
  readonly options?: Readonly<Record<string, Readonly<Record<string, unknown>>>>
  /** What the server has for them. Default: nothing. */
  readonly services?: Services
}

/**
 * Makes the protocols for a {@link koaTransport} by their names.
 *
 * @throws `invalid_configuration` for a name that is not registered, or a wrong option
 */
export function createKoaProtocols(
  registry: Pick<PluginRegistry, 'protocolNames' | 'createProtocol'>,
  { names, options = {}, services = new Services() }: KoaProtocolsOptions = {},
): KoaProtocol[] {
  const protocols: KoaProtocol[] = []
  services.set(PROTOCOLS, protocols)
  const registered = registry.protocolNames()
  const unknown = Object.keys(options).find((name) => !registered.includes(name))
  if (unknown !== undefined) {
    const message = `protocol_options: expected ${registered.join(', ')}, instead got "${unknown}"`
    throw new CllmError('invalid_configuration', message, { details: { valid: registered } })
  }
  for (const name of new Set(names ?? registered)) {
    protocols.push(withRoutes(registry.createProtocol(name, options[name], services)))
  }
  return protocols
}

/** What a protocol may do in place of having routes; those of this package may be off. */
const hooks = ['mount', 'keys', 'observe', 'within', 'around', 'start', 'close'] as const
const mayBeOff = new Set(builtInProtocols.map(({ name }) => name))

/** A route that is otherwise would be reached by no request, or fail each. */
const routesSchema = z
  .array(
    z.looseObject({
      method: z.enum(['get', 'post', 'put', 'patch', 'delete']),
      path: z.string().regex(/^\/([^{}()<>?#*\s]|\*\w)*$/, 'expected such as "/a/:segment/*rest"'),
      access: z.enum(['open', 'user', 'metrics', 'admin']).optional(),
      handle: z.custom((value) => typeof value === 'function', 'expected a function'),
    }),
  )
  .refine(
    (routes) => new Set(routes.map(matched)).size === routes.length,
    'expected each path once for a method',
  )

/** What requests a route matches, whatever its parameters are called. */
const matched = ({ method, path }: Pick<BoundRoute, 'method' | 'path'>): string =>
  `${method} ${path.replaceAll(/(?<=[:*])\w+/g, '')}`

/** In plain JavaScript, `routes` may be misspelt or no list: nothing would be served, without a word. */
function withRoutes(made: KoaProtocol): KoaProtocol {
  const { name } = made
  const isSome = mayBeOff.has(name) || hooks.some((hook) => hook in made)
  const { error } = routesSchema.safeParse(made.routes ?? (isSome ? [] : undefined))
  if (error === undefined) return made
  const [issue] = error.issues
  const at = ['routes', ...(issue?.path ?? [])].join('.')
  const message = `protocol "${name}": ${at}: ${issue?.message}`
  throw new CllmError('plugin_invalid', message, { details: { protocol: name } })
}
