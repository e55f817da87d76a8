import { annotationKeywords, schemaKeywords } from '@cllm/backend-llamacpp'

/** The text of `docs/structured-output.md`. */
export const renderStructuredOutputDocs = (): string => {
  const rows = Object.entries(schemaKeywords).map(([name, { note }]) => `| \`${name}\` | ${note} |`)
  const annotations = annotationKeywords.map((name) => `\`${name}\``).join(', ')
  return `# Structured output

<!-- Made from the keyword table of @cllm/backend-llamacpp by \`pnpm run docs\`; do not edit. -->

A request can constrain its output by a grammar in GBNF (llama.cpp's notation), to a JSON object, or to
what is valid by a JSON schema (draft 2020-12). Only tokens that keep to the constraint are drawn, and
the model can stop only where it is fulfilled. Output that ends with \`stop\`, and not at a stop text,
is valid; output that ends with \`length\` was cut and may not be.

It fails closed: a grammar that cannot be read, or a schema with a keyword that is not in this table or
cannot be kept to as it is used, is answered with the error \`invalid_constraint\` (400) before any
work. The message names the keyword by its JSON pointer, or line and column of the grammar.

The output may be narrower than the schema, never wider: properties come in the schema's order,
whitespace is at most one blank or one line break with its indentation, numbers have up to 15 digits.
Together with \`ignoreEos\` the output ends where the constraint allows nothing else.

| keyword | |
|---|---|
${rows.join('\n')}

These say nothing about what is valid and are passed over: ${annotations}, and all that begin with
\`x-\`.
`
}
