import { CllmError, type PluginRegistry } from '@cllm/core'
import type { ProtocolContext } from './routes/define-protocol.js'
import type { KoaProtocol } from './routes/koa-context.js'

/** Which protocols of a registry are made, and with what. */
export interface KoaProtocolsOptions extends Partial<Omit<ProtocolContext, 'protocols'>> {
  /** In this order; where two claim a path, the first one has it. Default: every registered one. */
  readonly names?: readonly string[]
  /** Options by the protocol's name; those of a protocol that is not made are not used. */
  readonly options?: Readonly<Record<string, Readonly<Record<string, unknown>>>>
}

/**
 * Makes the protocols for a {@link koaTransport} by their names.
 *
 * @throws `invalid_configuration` for a name that is not registered, or a wrong option
 */
export function createKoaProtocols(
  registry: Pick<PluginRegistry, 'protocolNames' | 'createProtocol'>,
  { names = registry.protocolNames(), options = {}, ...given }: KoaProtocolsOptions = {},
): KoaProtocol[] {
  const protocols: KoaProtocol[] = []
  const context: ProtocolContext = { defaults: {}, started: 0, ...given, protocols }
  const registered = registry.protocolNames()
  const unknown = Object.keys(options).find((name) => !registered.includes(name))
  if (unknown !== undefined) {
    const message = `protocol_options: expected ${registered.join(', ')}, instead got "${unknown}"`
    throw new CllmError('invalid_configuration', message, { details: { valid: registered } })
  }
  for (const name of new Set(names)) {
    protocols.push(registry.createProtocol(name, options[name], context))
  }
  return protocols
}
