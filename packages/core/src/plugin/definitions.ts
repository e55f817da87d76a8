import type { Definition } from '../contracts/definition.js'
import { CllmError } from '../errors/cllm-error.js'
import { didYouMean } from '../errors/did-you-mean.js'
import { checkDefinition, checkFree } from './check-definition.js'
import { noSuchOption } from './dropped-option.js'
import { optionProblems } from './option-problems.js'

type AnyDefinition = Omit<Definition<unknown>, 'create'> & { readonly create: unknown }

/** What plug-ins define of one kind, by name. */
export class Definitions<One extends AnyDefinition> {
  readonly #byName = new Map<string, One>()

  /**
   * @param kind - what they are, such as `router`
   * @param field - where users name one. Default: the kind
   */
  constructor(
    protected readonly kind: string,
    private readonly field = kind,
  ) {}

  /** The names, in the order of registration. */
  get names(): string[] {
    return [...this.#byName.keys()]
  }

  /** The one of this name, if there is one. */
  get(name: string): One | undefined {
    return this.#byName.get(name)
  }

  /**
   * @param replaces - whether it takes the place of the one of its name
   * @throws `plugin_invalid`, or `plugin_conflict` when there is one of this name
   */
  add(definition: One, replaces = false): void {
    checkDefinition(this.kind, definition)
    if (!replaces) checkFree(this.#byName, this.kind, definition.name)
    this.#byName.set(definition.name, definition)
  }

  /**
   * The one of this name.
   *
   * @param valid - the names that a user can choose from. Default: all
   * @param more - what else is valid
   * @throws `invalid_configuration` with the valid names
   */
  find(name: string, valid: readonly string[] = this.names, more = ''): One {
    const definition = this.#byName.get(name)
    if (definition !== undefined) return definition
    const expected =
      valid.length === 0 ? 'none is registered' : `expected one of ${valid.join(', ')}${more}`
    const message = `${this.field}: ${expected}, instead got "${name}"${didYouMean(name, valid)}`
    const details = { field: this.field, valid }
    throw new CllmError('invalid_configuration', message, { details })
  }

  /**
   * Its options, checked and with defaults.
   *
   * @throws `invalid_configuration` that names each wrong option, or the one that there is not
   */
  options(
    { name, options: schema }: Pick<Definition<unknown>, 'name' | 'options'>,
    given: Readonly<Record<string, unknown>>,
  ): unknown {
    const valid = Object.keys(schema?.shape ?? {})
    const unknown = Object.keys(given).find((option) => !valid.includes(option))
    if (unknown !== undefined) throw this.#invalid(name, [noSuchOption(unknown, valid)])
    try {
      return schema?.parse(given) ?? {}
    } catch (error) {
      throw this.explained(name, error)
    }
  }

  /** What its schema, or its `create`, threw, with what was to be made. */
  explained(name: string, cause: unknown): CllmError {
    return this.#invalid(name, optionProblems(cause), cause)
  }

  #invalid(name: string, problems: readonly string[], cause?: unknown): CllmError {
    const { kind } = this
    const message = `${kind} "${name}": ${problems.join('; ')}`
    const details = { [kind]: name, problems }
    return new CllmError('invalid_configuration', message, { details, cause })
  }
}
