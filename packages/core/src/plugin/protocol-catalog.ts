import type { ProtocolDefinition } from '../contracts/definition.js'
import type { Protocol } from '../contracts/transport.js'
import { CllmError } from '../errors/cllm-error.js'
import { checkDefinition } from './check-definition.js'
import { Definitions } from './definitions.js'

type Options = Readonly<Record<string, unknown>>

/** The protocols by name. */
export class ProtocolCatalog {
  readonly #definitions = new Definitions<ProtocolDefinition>('protocol', 'protocols')

  /** The names, in the order of registration; a replacement keeps the place of what it replaces. */
  get names(): string[] {
    return this.#definitions.names
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
    this.#definitions.put(definition)
  }

  /** @throws `invalid_configuration` or `plugin_invalid` */
  create(name: string, given: Options, context: unknown): Protocol {
    const definition = this.#definitions.find(name)
    const protocol = definition.create(this.#definitions.options(definition, given), context)
    if (typeof (protocol as { name?: unknown } | undefined)?.name === 'string') return protocol
    const message = `protocol "${name}": create made no protocol, which has a name`
    throw new CllmError('plugin_invalid', message, { details: { protocol: name } })
  }
}
