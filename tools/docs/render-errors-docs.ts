import { errorTable } from '@cllm/core'

/** The text of `docs/errors.md`. */
export const renderErrorsDocs = (): string => {
  const rows = Object.entries(errorTable).map(
    ([code, { status, description }]) => `- \`${code}\`, ${status}: ${description}`,
  )
  return `# Errors

<!-- Generated from the error table of @cllm/core by \`pnpm run docs\`; do not edit. -->

The stable codes of all failures (\`code\` of a \`CllmError\` and of an HTTP answer), each with its status.

${rows.join('\n')}
`
}
