import type { RouterDefinition } from '../contracts/definition.js'
import type { RouterPolicy } from '../contracts/routing/router-policy.js'
import { checkMade } from './check-made.js'
import { Definitions } from './definitions.js'

/** The routers by name. */
export class RouterCatalog {
  readonly #definitions = new Definitions<RouterDefinition>('router')

  /** The names, in the order of their registration. */
  get names(): string[] {
    return this.#definitions.names
  }

  /** @throws `plugin_invalid`, or `plugin_conflict` when there is one of this name */
  add(definition: RouterDefinition): void {
    this.#definitions.add(definition)
  }

  /**
   * Makes the router of this name: one for each front.
   *
   * @throws `invalid_configuration` with the valid names, or with what is wrong with which option;
   *   `plugin_invalid` when what was made is no router
   */
  create(name: string, options: Readonly<Record<string, unknown>> = {}): RouterPolicy {
    const definition = this.#definitions.find(name)
    const router = definition.create(this.#definitions.options(definition, options))
    return checkMade('router', name, router, 'place')
  }
}
