import type { SamplerDefinition } from '../../contracts/definition.js'
import type { LogitProcessor, SamplerContext } from '../../contracts/model/sampler.js'
import type { SamplerChoice } from '../../contracts/model/sampling.js'
import { CllmError } from '../../errors/cllm-error.js'
import { issuesOf } from '../../plugin/option-problems.js'
import { invalidField } from './check-request.js'
import { checkMade } from '../../plugin/check-definition.js'
import { Definitions } from '../../plugin/definitions.js'
import { didYouMean } from '../../errors/did-you-mean.js'
import { token } from '../../tokens.js'

/** A request names no more than this many: each is run for every token. */
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
   * @throws `invalid_request` naming the field, with the valid names or what is wrong with which option;
   *   `plugin_invalid` when what was made is no sampler
   */
  create(choices: readonly SamplerChoice[], context: SamplerContext): LogitProcessor[] {
    const fits = Array.isArray(choices) && choices.length <= mostSamplers
    if (!fits) throw invalidField('samplers', `an array of up to ${mostSamplers} objects`, choices)
    return choices.map((choice, index) => this.#create(choice, `samplers.${index}`, context))
  }

  #create(choice: SamplerChoice, field: string, context: SamplerContext): LogitProcessor {
    const { name, options = {} } = choice ?? {}
    const definition = this.#named(name, `${field}.name`)
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
    const processor = definition.create(parse(definition, options, field), context)
    return checkMade('sampler', definition.name, processor, 'apply')
  }

  #named(name: unknown, field: string): SamplerDefinition {
    const definition = typeof name === 'string' ? this.get(name) : undefined
    if (definition !== undefined) return definition
    const { names } = this
    const expected = names.length === 0 ? 'none is registered' : `one of ${names.join(', ')}`
    throw invalidField(field, expected, name)
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
