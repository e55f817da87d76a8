/** What is wrong with options: each issue of zod and its like by its option, of other errors the message. */
export function optionProblems(error: unknown): string[] {
  const issues = (error as { issues?: unknown } | undefined)?.issues
  if (!Array.isArray(issues)) return [error instanceof Error ? error.message : String(error)]
  return issues.map((issue: { path?: readonly PropertyKey[]; message?: string }) => {
    const path = (issue.path ?? []).map(String).join('.')
    const message = String(issue.message).replace(/^Invalid input: /, '')
    return path === '' ? message : `option "${path}": ${message}`
  })
}
