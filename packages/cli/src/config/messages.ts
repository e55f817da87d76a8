import { inspect } from 'node:util'
import { attempt, CllmError, didYouMean, messageOf } from '@cllm/core'

const longest = 60

/** Formats a value for a message; long values are cut. */
export const describeValue = (value: unknown): string => {
  if (value === null || value === undefined) return 'nothing'
  if (typeof value === 'number') return String(value)
  const named = (_: string, each: unknown) => (typeof each === 'function' ? 'a function' : each)
  // A program may pass values that JSON cannot express.
  const json = attempt(() => JSON.stringify(value, named)) ?? inspect(value, { depth: 0 })
  return json.length > longest ? `${json.slice(0, longest)}…` : json
}

/** {@link didYouMean} as on a command line: without quotation marks. */
export const suggestion = (name: string, candidates: Iterable<string>): string =>
  didYouMean(name, candidates, String)

/**
 * Returns the result of an action, or explains its failure.
 *
 * @param problem - the message if it throws, before the reason
 * @param advice - the message's end, behind the reason; default: nothing
 * @throws `invalid_configuration`
 */
export function orInvalid<T>(action: () => T, problem: string, advice = ''): T {
  try {
    return action()
  } catch (cause) {
    const message = `${problem}: ${reasonOf(cause)}${advice}`
    throw new CllmError('invalid_configuration', message, { cause })
  }
}

/** Why something failed: the system's error codes in words, with the file that they concern. */
export function reasonOf(cause: unknown): string {
  const { code, path } = cause as Partial<NodeJS.ErrnoException>
  const where = path === undefined ? '' : `: ${path}`
  if (code === 'ENOENT') return `there is no such file or folder${where}`
  return code === 'EEXIST' ? `it is there already${where}` : messageOf(cause)
}
