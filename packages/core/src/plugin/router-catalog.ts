import type { RouterDefinition } from '../contracts/definition.js'
import type { RouterPolicy } from '../contracts/routing/router-policy.js'
import { CllmError } from '../errors/cllm-error.js'
import { didYouMean } from '../errors/did-you-mean.js'
import { checkDefinition, checkFree } from './check-definition.js'
import { definitionOptions } from './definition-options.js'

/** The routers by name. */
export class RouterCatalog {
  readonly #definitions = new Map<string, RouterDefinition>()

  /** The names, in the order of their registration. */
  get names(): string[] {
    return [...this.#definitions.keys()]
  }

  /** @throws `plugin_invalid`, or `plugin_conflict` when there is one of this name */
  add(definition: RouterDefinition): void {
    checkDefinition('router', definition)
    checkFree(this.#definitions, 'router', definition.name)
    this.#definitions.set(definition.name, definition)
  }

  /**
   * Makes the router of this name: one for each front.
   *
   * @throws `invalid_configuration` with the valid names, or with what is wrong with which option;
   *   `plugin_invalid` when what was made is no router
   */
  create(name: string, options: Readonly<Record<string, unknown>> = {}): RouterPolicy {
    const definition = this.#find(name)
    const router = definition.create(definitionOptions('router', definition, options))
    if (typeof router?.place === 'function') return router
    const message = `router "${name}": create made no router, which has a place method`
    throw new CllmError('plugin_invalid', message, { details: { router: name } })
  }

  #find(name: string): RouterDefinition {
    const definition = this.#definitions.get(name)
    if (definition !== undefined) return definition
    const { names } = this
    const expected =
      names.length === 0 ? 'none is registered' : `expected one of ${names.join(', ')}`
    const message = `router: ${expected}, instead got "${name}"${didYouMean(name, names)}`
    throw new CllmError('invalid_configuration', message, {
      details: { field: 'router', valid: names },
    })
  }
}
