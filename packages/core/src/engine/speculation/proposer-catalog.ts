import type { ProposerDefinition } from '../../contracts/definition.js'
import type { Proposer } from '../../contracts/model/proposer.js'
import { CllmError } from '../../errors/cllm-error.js'
import { checkMade } from '../../plugin/check-made.js'
import { Definitions } from '../../plugin/definitions.js'
import { draftModelName } from './draft-backend.js'
import { ngramProposer } from './ngram-proposer.js'

/** The proposer that `auto` stands for. */
const automatic = 'ngram'

/** The proposers by name: the built-in `ngram`, and those of plug-ins. */
export class ProposerCatalog {
  readonly #definitions = new Definitions<ProposerDefinition>('proposer', 'speculative')

  constructor() {
    this.add(ngramProposer)
  }

  /** What `--speculative` takes, beside a model. */
  get names(): string[] {
    return ['auto', 'off', ...this.#definitions.names.toSorted()]
  }

  /** @throws `plugin_invalid`, or `plugin_conflict` when there is one of this name */
  add(definition: ProposerDefinition): void {
    if (['auto', 'off', draftModelName].includes(definition?.name)) {
      const message = `A proposer cannot be named "${definition.name}", which means something else`
      throw new CllmError('plugin_invalid', message)
    }
    this.#definitions.add(definition)
  }

  /**
   * Makes the proposer of this name with these options; `off` is none.
   *
   * @throws `invalid_configuration` with the valid names, or with what is wrong with the options
   */
  create(name: string, options: Readonly<Record<string, unknown>> = {}): Proposer | undefined {
    const definition = this.#find(name)
    if (definition === undefined) return undefined
    const made = definition.create(this.#definitions.options(definition, options))
    return checkMade('proposer', definition.name, made, 'begin')
  }

  /**
   * Checks that there is a proposer of this name and that it takes these options.
   *
   * @throws as {@link create}
   */
  check(name: string, options: Readonly<Record<string, unknown>> = {}): void {
    const definition = this.#find(name)
    if (definition !== undefined) this.#definitions.options(definition, options)
  }

  #find(name: string): ProposerDefinition | undefined {
    if (name === 'off') return undefined
    return this.#definitions.find(name === 'auto' ? automatic : name, this.names, ' or a model')
  }
}
