import type { ProtocolDefinition } from '../contracts/definition.js'
import type { Protocol } from '../contracts/transport.js'
import { CllmError } from '../errors/cllm-error.js'
import { Definitions } from './definitions.js'

type Options = Readonly<Record<string, unknown>>

/** The protocols by name, in the order of registration; a replacement keeps the place of what it replaces. */
export class ProtocolCatalog extends Definitions<ProtocolDefinition> {
  constructor() {
    super('protocol', 'protocols')
  }

  /** @throws `plugin_invalid`, or `plugin_conflict` when its name is taken and it does not replace */
  override add(definition: ProtocolDefinition): void {
    const { name, replaces = false } = definition ?? {}
    if (/[,\s]/.test(name)) {
      const message = `The name of the protocol "${name}": expected neither commas nor spaces in it`
      throw new CllmError('plugin_invalid', message)
    }
    const taken = this.get(name)
    if (taken !== undefined && (!replaces || taken.replaces === true)) {
      const hint = replaces ? 'and replaced already' : 'already; `replaces: true` takes its place'
      const message = `A protocol named "${name}" is registered ${hint}`
      throw new CllmError('plugin_conflict', message, { details: { protocol: name } })
    }
    super.add(definition, replaces)
  }

  /** @throws `invalid_configuration` or `plugin_invalid` */
  create(name: string, given: Options, context: unknown): Protocol {
    const definition = this.find(name)
    const protocol = definition.create(this.options(definition, given), context)
    if (typeof (protocol as { name?: unknown } | undefined)?.name === 'string') return protocol
    const message = `protocol "${name}": create made no protocol, which has a name`
    throw new CllmError('plugin_invalid', message, { details: { protocol: name } })
  }
}
