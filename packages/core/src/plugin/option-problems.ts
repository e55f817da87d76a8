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
    return [{ path: [], message: error instanceof Error ? error.message : String(error) }]
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
