import type { ProposerDefinition } from '../../contracts/definition.js'
import type { Proposer } from '../../contracts/model/proposer.js'
import { CllmError } from '../../errors/cllm-error.js'
import { didYouMean } from '../../errors/did-you-mean.js'
import { checkDefinition, checkFree } from '../../plugin/check-definition.js'
import { ngramProposer } from './ngram-proposer.js'

/** The proposer that `auto` stands for. */
const automatic = 'ngram'

/** The proposers by name: the built-in `ngram`, and those of plug-ins. */
export class ProposerCatalog {
  readonly #definitions = new Map<string, ProposerDefinition>()

  constructor() {
    this.add(ngramProposer)
  }

  /** What `--speculative` takes. */
  get names(): string[] {
    return ['auto', 'off', ...[...this.#definitions.keys()].toSorted()]
  }

  /** @throws `plugin_invalid`, or `plugin_conflict` when there is one of this name */
  add(definition: ProposerDefinition): void {
    checkDefinition('proposer', definition)
    checkFree(this.#definitions, 'proposer', definition.name)
    if (definition.name === 'auto' || definition.name === 'off') {
      const message = `A proposer cannot be named "${definition.name}", which means something else`
      throw new CllmError('plugin_invalid', message)
    }
    this.#definitions.set(definition.name, definition)
  }

  /**
   * Makes the proposer of this name; `off` is none.
   *
   * @throws `invalid_configuration` with the valid names
   */
  create(name: string): Proposer | undefined {
    const definition = this.#find(name)
    return definition?.create(definition.options?.parse({}) ?? {})
  }

  /** @throws `invalid_configuration` with the valid names where there is none of this name */
  check(name: string): void {
    this.#find(name)
  }

  #find(name: string): ProposerDefinition | undefined {
    if (name === 'off') return undefined
    const definition = this.#definitions.get(name === 'auto' ? automatic : name)
    if (definition !== undefined) return definition
    const { names } = this
    const message = `speculative: expected one of ${names.join(', ')}, instead got "${name}"${didYouMean(name, names)}`
    throw new CllmError('invalid_configuration', message, {
      details: { field: 'speculative', valid: names },
    })
  }
}
