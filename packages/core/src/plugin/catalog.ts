import type { Definition } from '../contracts/definition.js'
import { checkMade } from './check-made.js'
import { Definitions } from './definitions.js'

/** What plug-ins register of a kind whose parts have one method, such as routers, by name. */
export class Catalog<Made extends object> extends Definitions<Definition<Made>> {
  /**
   * @param kind - what they are, such as `router`
   * @param method - what each has
   */
  constructor(
    kind: string,
    private readonly method: keyof Made & string,
  ) {
    super(kind)
  }

  /**
   * Makes the one of this name.
   *
   * @throws `invalid_configuration` with the valid names, or with what is wrong with which option;
   *   `plugin_invalid` when what was made lacks the method
   */
  create(name: string, options: Readonly<Record<string, unknown>> = {}): Made {
    const definition = this.find(name)
    const made = definition.create(this.options(definition, options))
    return checkMade(this.kind, name, made, this.method)
  }
}
