import type { ProtocolDefinition } from '../contracts/definition.js'
import type { Protocol } from '../contracts/transport.js'
import { CllmError } from '../errors/cllm-error.js'
import { checkDefinition } from './check-definition.js'
import { didYouMean } from '../errors/did-you-mean.js'
import { definitionOptions } from './definition-options.js'

type Options = Readonly<Record<string, unknown>>

/** The protocols by name. */
export class ProtocolCatalog {
  readonly #definitions = new Map<string, ProtocolDefinition>()

  /** The names, in the order of registration; a replacement keeps the place of what it replaces. */
  get names(): string[] {
    return [...this.#definitions.keys()]
  }

  /** @throws `plugin_invalid`, or `plugin_conflict` when its name is taken and it does not replace */
  add(definition: ProtocolDefinition): void {
    checkDefinition('protocol', definition)
    const { name, replaces = false } = definition
    if (/[,\s]/.test(name)) {
      const message = `The name of the protocol "${name}": expected neither commas nor spaces in it`
      throw new CllmError('plugin_invalid', message)
    }
    const taken = this.#definitions.get(name)
    if (taken !== undefined && (!replaces || taken.replaces === true)) {
      const hint = replaces ? 'and replaced already' : 'already; `replaces: true` takes its place'
      const message = `A protocol named "${name}" is registered ${hint}`
      throw new CllmError('plugin_conflict', message, { details: { protocol: name } })
    }
    this.#definitions.set(name, definition)
  }

  /** @throws `invalid_configuration` or `plugin_invalid` */
  create(name: string, given: Options, context: unknown): Protocol {
    const { names } = this
    const definition = this.#definitions.get(name)
    if (definition === undefined) {
      const expected =
        names.length === 0 ? 'none is registered' : `expected one of ${names.join(', ')}`
      const message = `protocols: ${expected}, instead got "${name}"${didYouMean(name, names)}`
      const details = { field: 'protocols', valid: names }
      throw new CllmError('invalid_configuration', message, { details })
    }
    const protocol = definition.create(definitionOptions('protocol', definition, given), context)
    if (typeof protocol?.name === 'string' && typeof protocol.mount === 'function') return protocol
    const message = `protocol "${name}": create made no protocol, which has a name and a mount method`
    throw new CllmError('plugin_invalid', message, { details: { protocol: name } })
  }
}
