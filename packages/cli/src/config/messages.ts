import { CllmError, didYouMean } from '@cllm/core'

const longest = 60

/** Formats a value for a message; long values are cut. */
export const describeValue = (value: unknown): string => {
  if (value === null || value === undefined) return 'nothing'
  const json = JSON.stringify(value)
  return json.length > longest ? `${json.slice(0, longest)}…` : json
}

/** {@link didYouMean} as on a command line: without quotation marks. */
export const suggestion = (name: string, candidates: Iterable<string>, prefix = ''): string =>
  didYouMean(name, candidates, (nearest) => `${prefix}${nearest}`)

/**
 * What an action returns.
 *
 * @param problem - the message when it throws, for its reason
 * @throws `invalid_configuration`
 */
export function orInvalid<T>(action: () => T, problem: (reason: string) => string): T {
  try {
    return action()
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new CllmError('invalid_configuration', problem(reason), { cause })
  }
}
