import { errorTable } from '@cllm/core'

/** The text of `docs/errors.md`. */
export const renderErrorsDocs = (): string => {
  const rows = Object.entries(errorTable).map(
    ([code, { status, description }]) => `| \`${code}\` | ${status} | ${description} |`,
  )
  return `# Errors

<!-- Made from the error table of @cllm/core by \`pnpm run docs\`; do not edit. -->

Every failure that cLLM reports has one of these codes. They are stable: programs can rely on them.
In code it is the \`code\` of a \`CllmError\`; over HTTP the status tells, with the reason in the body.

| code | HTTP status | meaning |
|---|---|---|
${rows.join('\n')}
`
}
