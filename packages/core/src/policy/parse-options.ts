import type { Definition } from '../contracts/definition.js'
import { CllmError } from '../errors/cllm-error.js'
import { issuesOf } from '../plugin/option-problems.js'
import { didYouMean } from '../errors/did-you-mean.js'

type Options = Readonly<Record<string, unknown>>

/**
 * Gives each part its own of the options, checked and with defaults.
 *
 * @param policy - names the policy in errors
 * @throws `invalid_policy` with all that is wrong, and the options that would do in `details.valid`
 */
export function parseOptions<Parts extends readonly Definition<unknown>[]>(
  policy: string,
  parts: readonly [...Parts],
  given: Options,
): { [Index in keyof Parts]: Options } {
  const valid = parts.flatMap(({ options }) => Object.keys(options?.shape ?? {}))
  const problems: string[] = []
  let cause: unknown
  const parsed = parts.map(({ options }) => {
    try {
      return options?.parse(pick(given, Object.keys(options.shape))) ?? {}
    } catch (error) {
      cause ??= error
      for (const { path, message } of issuesOf(error)) problems.push([...path, message].join(': '))
      return {}
    }
  })
  const unknown = Object.keys(given).filter((option) => !valid.includes(option))
  if (unknown.length > 0) {
    const names = unknown.map((option) => `"${option}"`).join(', ')
    problems.push(`Unrecognized key${unknown.length > 1 ? 's' : ''}: ${names}`)
  }
  if (problems.length === 0) return parsed as { [Index in keyof Parts]: Options }
  const known = valid.length === 0 ? 'it has no options' : `its options are ${valid.join(', ')}`
  const meant = unknown[0] === undefined ? '' : didYouMean(unknown[0], valid)
  const message = `Wrong options for "${policy}": ${problems.join('; ')} (${known})${meant}`
  throw new CllmError('invalid_policy', message, { details: { policy, valid }, cause })
}

const pick = (given: Options, names: readonly string[]): Options =>
  Object.fromEntries(Object.entries(given).filter(([name]) => names.includes(name)))
