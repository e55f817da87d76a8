import { errorTable } from '@cllm/core'

/** The text of `docs/errors.md`. */
export const renderErrorsDocs = (): string => {
  const rows = Object.entries(errorTable).map(
    ([code, { status, description }]) => `- \`${code}\`, ${status}: ${description}`,
  )
  return `# Errors

<!-- Generated from the error table of @cllm/core by \`pnpm run docs\`; do not edit. -->

Every failure has one of these stable codes: \`code\` of a \`CllmError\`, and in the body of an HTTP answer with the status
given here.

${rows.join('\n')}
`
}
