import { issuesOf } from '../errors/issues-of.js'

/** What is wrong with options, in words: each issue with the name of its option. */
export function optionProblems(error: unknown): string[] {
  return issuesOf(error).map(({ path, message }) => {
    const problem = message.replace(/^Invalid input: /, '')
    return path.length === 0 ? problem : `option "${path.join('.')}": ${problem}`
  })
}
