import type { Definition } from '../contracts/definition.js'
import { CllmError } from '../errors/cllm-error.js'
import { didYouMean } from '../errors/did-you-mean.js'
import { optionProblems } from './option-problems.js'

/**
 * The options of what a plug-in defines, checked and with defaults.
 *
 * @param kind - what it is, such as `router`
 * @throws `invalid_configuration` that names each wrong option, or the one that there is not
 */
export function definitionOptions(
  kind: string,
  { name, options: schema }: Pick<Definition<unknown>, 'name' | 'options'>,
  given: Readonly<Record<string, unknown>>,
): unknown {
  const invalid = (problems: readonly string[], cause?: unknown) => {
    const message = `${kind} "${name}": ${problems.join('; ')}`
    const details = { [kind]: name, problems }
    return new CllmError('invalid_configuration', message, { details, cause })
  }
  const valid = Object.keys(schema?.shape ?? {})
  const unknown = Object.keys(given).find((option) => !valid.includes(option))
  if (unknown !== undefined) {
    const known = valid.length === 0 ? 'it has no options' : `its options are ${valid.join(', ')}`
    throw invalid([`there is no option "${unknown}" (${known})${didYouMean(unknown, valid)}`])
  }
  try {
    return schema?.parse(given) ?? {}
  } catch (error) {
    throw invalid(optionProblems(error), error)
  }
}
