import { messageOf } from '../errors/cllm-error.js'
import type { ObjectSchema, OptionsSchema } from '../contracts/definition.js'
import { didYouMean } from '../errors/did-you-mean.js'

/** What is wrong with one option: as zod and its like say it. */
interface Issue {
  /** The option's name, and where in its value. */
  readonly path: readonly string[]
  readonly message: string
}

/** What is wrong with options: each issue of zod and its like; of other errors the message. */
export function issuesOf(error: unknown): Issue[] {
  const issues = (error as { issues?: unknown } | undefined)?.issues
  if (!Array.isArray(issues)) {
    return [{ path: [], message: messageOf(error) }]
  }
  return issues.map((issue: { path?: readonly PropertyKey[]; message?: string }) => {
    return { path: (issue.path ?? []).map(String), message: String(issue.message) }
  })
}

/** What is wrong with options, in words: each issue with the name of its option. */
export function optionProblems(error: unknown): string[] {
  return issuesOf(error).map(({ path, message }) => {
    const problem = message.replace(/^Invalid input: /, '')
    return path.length === 0 ? problem : `option "${path.join('.')}": ${problem}`
  })
}

/**
 * What is wrong where a schema drops an option that it does not know without a word, as zod's `z.object`
 * does; undefined: it knows them all.
 *
 * @param parsed - what the schema made of them
 */
export function droppedOption(
  schema: OptionsSchema<unknown>,
  given: Readonly<Record<string, unknown>>,
  parsed: unknown,
): string | undefined {
  const { shape } = schema as Partial<ObjectSchema<unknown>>
  if (shape === undefined) return undefined
  const valid = Object.keys(shape)
  const known = new Set([...valid, ...Object.keys(parsed ?? {})])
  const dropped = Object.keys(given).find((option) => !known.has(option))
  if (dropped === undefined) return undefined
  return noSuchOption(dropped, valid)
}

/** Says that an option is none of the valid ones. */
export function noSuchOption(option: string, valid: readonly string[]): string {
  const known = valid.length === 0 ? 'it has no options' : `its options are ${valid.join(', ')}`
  return `there is no option "${option}" (${known})${didYouMean(option, valid)}`
}
