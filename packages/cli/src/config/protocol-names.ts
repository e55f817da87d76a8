import { CllmError, PluginRegistry } from '@cllm/core'
import { builtInProtocols, createKoaProtocols, type KoaProtocolsOptions } from '@cllm/http-koa'
import type { Setting } from './layers/setting.js'
import { accepts, format, record, splitAtCommas, type ValueFormat } from './options/value-format.js'

type ProtocolOptions = NonNullable<KoaProtocolsOptions['options']>

/** The APIs to serve: all that are registered, or the named ones. */
export type ProtocolChoice = readonly string[] | 'all'

/** The built-in protocols; plug-ins add more. */
const protocolNames: readonly string[] = builtInProtocols.map(({ name }) => name)

const isName = (value: unknown): boolean => typeof value === 'string' && /^[^,\s]+$/.test(value)

/** `all`, or names of protocols. Plug-ins may add names, so the registry checks them later. */
export const protocolChoice: ValueFormat<ProtocolChoice> = format(
  `all, or a list of ${protocolNames.join(', ')} and names from plugins`,
  (value) => value === 'all' || (Array.isArray(value) && value.every(isName)),
  {
    parse: (text) => (text.trim() === 'all' ? 'all' : splitAtCommas(text)),
    placeholder: 'NAMES',
  },
)

/**
 * Problems with the choice of built-in protocols and their options. Plugins' protocols are known
 * only once the plugins are loaded.
 */
export const checkProtocols = (choice: Setting, options: Setting): readonly string[] => {
  if (!accepts(protocolChoice, choice.value) || !accepts(record(), options.value)) return []
  const registry = new PluginRegistry()
  for (const protocol of builtInProtocols) registry.registerProtocol(protocol)
  const names = choice.value as ProtocolChoice
  const check = (label: string, given: KoaProtocolsOptions): string[] => {
    try {
      createKoaProtocols(registry, given)
      return []
    } catch (error) {
      if (!CllmError.isInstance(error)) throw error
      return [`${label}: ${error.message}`]
    }
  }
  return [
    ...(names === 'all' ? [] : check(choice.label, { names })),
    ...check(options.label, { options: options.value as ProtocolOptions }),
  ]
}
