import { errorTable } from '@cllm/core'

/** The text of `docs/errors.md`. */
export const renderErrorsDocs = (): string => {
  const rows = Object.entries(errorTable).map(
    ([code, { status, description }]) => `| \`${code}\` | ${status} | ${description} |`,
  )
  return `# Errors

<!-- Generated from the error table of @cllm/core by \`pnpm run docs\`; do not edit. -->

Every failure that cLLM reports has one of these codes. They are stable: programs can rely on them.
In code, it is the \`code\` of a \`CllmError\`; over HTTP, the answer has the status and, in its body,
the reason.

| code | HTTP status | meaning |
|---|---|---|
${rows.join('\n')}
`
}
