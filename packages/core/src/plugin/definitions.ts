import type { Definition, ProtocolDefinition, SamplerDefinition } from '../contracts/plugin.js'
import type { Protocol } from '../contracts/transport.js'
import {
  noSuchName,
  checkDefinition,
  checkFree,
  checkMade,
  noSuchOption,
  optionProblems,
  issuesOf,
  synchronous,
  type GivenOptions,
  type AnyDefinition,
} from './checks.js'
import { CllmError, didYouMean } from '../errors/cllm-error.js'
import type { LogitProcessor, SamplerContext } from '../contracts/model/drawing.js'
import type { SamplerChoice } from '../contracts/model/sampling.js'
import { invalidField } from '../engine/input/check-request.js'
import { token } from '../tokens.js'
import { answerable, blaming } from './part-catalog.js'

/** The definitions of one kind, such as routers, that plug-ins registered, by name. */
export class Definitions<One extends AnyDefinition> {
  readonly #byName = new Map<string, One>()

  /**
   * @param kind - the kind in errors, such as `router`
   * @param field - the setting in which users name a definition. Default: the kind
   */
  constructor(
    protected readonly kind: string,
    private readonly field = kind,
  ) {}

  /** The names, in the order of registration. */
  get names(): string[] {
    return [...this.#byName.keys()]
  }

  /** The definition of this name, if there is one. */
  get(name: string): One | undefined {
    return this.#byName.get(name)
  }

  /**
   * Registers a definition.
   *
   * @param replaces - whether it may replace the definition of the same name
   * @throws `plugin_invalid`, or `plugin_conflict` when the name is taken
   */
  add(definition: One, replaces = false): void {
    checkDefinition(this.kind, definition)
    if (!replaces) checkFree(this.#byName, this.kind, definition.name)
    this.#byName.set(definition.name, definition)
  }

  /**
   * Finds the definition of a name that a user gave.
   *
   * @param valid - the names that the user can choose from. Default: all
   * @param more - words on what else is valid, for the error
   * @throws `invalid_configuration` with the valid names
   */
  find(name: string, valid: readonly string[] = this.names, more = ''): One {
    const definition = this.#byName.get(name)
    if (definition !== undefined) return definition
    throw noSuchName(this.field, name, valid, 'none is registered', more)
  }

  /**
   * Checks a definition's options and adds defaults.
   *
   * @throws `invalid_configuration` that names each wrong or unknown option
   */
  options({ name, options: schema }: Pick<One, 'name' | 'options'>, given: GivenOptions): unknown {
    try {
      const valid = Object.keys(schema?.shape ?? {})
      const unknown = Object.keys(given).find((option) => !valid.includes(option))
      if (unknown !== undefined) throw new TypeError(noSuchOption(unknown, valid))
      return schema?.parse(given) ?? {}
    } catch (error) {
      throw this.explained(name, error)
    }
  }

  /**
   * Calls `create` of a definition.
   *
   * @throws `plugin_invalid` when the result lacks one of `needs`, and what `create` throws, with the name
   */
  protected made<Made extends object>(
    name: string,
    create: () => Made,
    ...needs: readonly (keyof Made & string)[]
  ): Made {
    try {
      return checkMade(this.kind, name, create(), ...needs)
    } catch (error) {
      throw CllmError.isInstance(error) ? error : this.explained(name, error)
    }
  }

  /** An error that the schema or `create` threw, with the definition's kind and name before its message. */
  explained(name: string, cause: unknown): CllmError {
    const { kind } = this
    const problems = optionProblems(cause)
    const message = `${kind} "${name}": ${problems.join('; ')}`
    const details = { [kind]: name, problems }
    return new CllmError('invalid_configuration', message, { details, cause })
  }
}

const namesOfMade = new WeakMap<object, string>()

/** The name of the definition from which a {@link Catalog} made an instance; undefined: made without one. */
export const madeAs = (instance: object): string | undefined => namesOfMade.get(instance)

/** The definitions of a kind whose instances have one method, such as routers, by name. */
export class Catalog<Made extends object> extends Definitions<Definition<Made>> {
  /**
   * @param kind - the kind in errors, such as `router`
   * @param method - the method that each instance has to have
   */
  constructor(
    kind: string,
    private readonly method: keyof Made & string,
  ) {
    super(kind)
  }

  /**
   * Makes an instance of the definition of this name.
   *
   * @throws `invalid_configuration` with the valid names, or with each option's problem;
   *   `plugin_invalid` when the instance lacks the method
   */
  create(name: string, options: GivenOptions = {}): Made {
    const definition = this.find(name)
    const checked = this.options(definition, options)
    const made = this.made(name, () => definition.create(checked), this.method)
    namesOfMade.set(made, name)
    return made
  }
}

/** The protocols by name, in the order of registration; a replacement keeps its predecessor's place. */
export class ProtocolCatalog extends Definitions<ProtocolDefinition> {
  constructor() {
    super('protocol', 'protocols')
  }

  /** @throws `plugin_invalid`, or `plugin_conflict` when the name is taken and the protocol does not replace */
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
  create(name: string, options: GivenOptions, context: unknown): Protocol {
    const definition = this.find(name)
    const checked = this.options(definition, options)
    return this.made(name, () => definition.create(checked, context), 'name')
  }
}

/** The most samplers that a request can name: each of them runs for every token. */
const mostSamplers = 8

/** The {@link SamplerCatalog}: the samplers of plug-ins. */
export const SAMPLERS = token<SamplerCatalog>('Samplers')

/** The samplers of plug-ins by name. */
export class SamplerCatalog extends Definitions<SamplerDefinition> {
  constructor() {
    super('sampler')
  }

  /** The names, sorted. */
  override get names(): string[] {
    return super.names.toSorted()
  }

  /**
   * Makes the samplers that a request names.
   *
   * @throws `invalid_request` with the field, and the valid names or each option's problem;
   *   `plugin_invalid` when `create` made no sampler, and what `create` throws, with the sampler's name
   */
  create(choices: readonly SamplerChoice[], context: SamplerContext): LogitProcessor[] {
    const fits = Array.isArray(choices) && choices.length <= mostSamplers
    if (!fits) throw invalidField('samplers', `an array of up to ${mostSamplers} objects`, choices)
    return choices.map((choice, index) => this.#create(choice, `samplers.${index}`, context))
  }

  #create(choice: SamplerChoice, field: string, context: SamplerContext): LogitProcessor {
    const { name, options = {} } = choice ?? {}
    const definition = typeof name === 'string' ? this.get(name) : undefined
    if (definition === undefined) {
      const { names } = this
      const expected = names.length === 0 ? 'none is registered' : `one of ${names.join(', ')}`
      throw invalidField(`${field}.name`, expected, name)
    }
    if (typeof options !== 'object' || options === null || Array.isArray(options)) {
      throw invalidField(`${field}.options`, 'an object', options)
    }
    const known = Object.keys(definition.options?.shape ?? {})
    const unknown = Object.keys(options).find((option) => !known.includes(option))
    if (unknown !== undefined) {
      const expected =
        known.length === 0 ? 'no options' : `${known.join(', ')}${didYouMean(unknown, known)}`
      throw invalidField(`${field}.options`, expected, unknown)
    }
    const checked = parse(definition, options, field)
    const processor = this.made(name, () => definition.create(checked, context), 'apply')
    const apply: LogitProcessor['apply'] = (logits, place) => {
      const made: unknown = synchronous(processor.apply(logits, place), 'it')
      if (!ArrayBuffer.isView(made) || made.buffer === logits.buffer) return
      throw new TypeError('it returned other logits: it changes those that it is given')
    }
    // Without the name, the error would look like the backend's, which calls the sampler.
    return answerable({ apply }, blaming(`sampler "${name}"`, 'plugin_invalid', { sampler: name }))
  }
}

function parse({ options: schema }: SamplerDefinition, given: object, field: string): unknown {
  try {
    return schema?.parse(given) ?? {}
  } catch (cause) {
    const [issue] = issuesOf(cause)
    const path = [field, 'options', ...(issue?.path ?? [])].join('.')
    const message = `${path}: ${issue?.message ?? 'cannot be read'}`
    throw new CllmError('invalid_request', message, { details: { field: path }, cause })
  }
}
