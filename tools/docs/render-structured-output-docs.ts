import { schemaKeywords } from '@cllm/backend-llamacpp'

/** The text of `docs/structured-output.md`. */
export const renderStructuredOutputDocs = (): string => {
  const rows = Object.entries(schemaKeywords).map(([name, { note }]) => `- \`${name}\`: ${note}`)
  return `# Structured output

<!-- Generated from the keyword table of @cllm/backend-llamacpp by \`pnpm run docs\`; do not edit. -->

A request can hold its output to a GBNF grammar, a JSON object, or a JSON schema (draft 2020-12). Output that ends with
\`stop\` is valid, unless a stop text ended it; with \`length\` it is cut off.

- A syntax error, or a keyword that cannot be enforced, is \`invalid_constraint\` (400) before anything is computed, with the
  JSON pointer or the line and column.
- Grammar size and work are limited, so that a constraint cannot delay other requests. Beyond a limit its own request ends
  with the same error.
- Output may be narrower than the schema, never wider except for \`uniqueItems\` of free elements: properties in the
  schema's order, at most one space or indented line break, numbers of up to 15 digits, years 1000 to 2099, times with an offset,
  URIs with \`http\` or \`https\`, \`multi-host-uri\` with \`postgresql\`.
- Rules outside the schema are not enforced: pydantic's \`PastDate\`, time zones, \`FileUrl\`, integer keys; zod's
  \`pipe\` and \`refine\`.
- With \`ignoreEos\` output ends where the constraint allows nothing more.

${rows.join('\n')}

Unknown keywords are annotations and are ignored (\`title\`, \`default\`, …). OpenAPI 3.0's \`nullable\`, boolean limits and
lists of \`items\` are understood; the property of a \`discriminator\` is always written. Objects have only the named
properties, as zod 4 and pydantic mean it; \`additionalProperties: true\` allows others. Where zod closes both sides of an
intersection, output has the properties of both.
`
}
