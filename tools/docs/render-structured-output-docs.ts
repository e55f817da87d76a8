import { schemaKeywords } from '@cllm/backend-llamacpp'

/** The text of `docs/structured-output.md`. */
export const renderStructuredOutputDocs = (): string => {
  const rows = Object.entries(schemaKeywords).map(([name, { note }]) => `| \`${name}\` | ${note} |`)
  return `# Structured output

<!-- Generated from the keyword table of @cllm/backend-llamacpp by \`pnpm run docs\`; do not edit. -->

A request can constrain its output to a grammar in GBNF (llama.cpp's notation), to a JSON object, or
to a JSON schema (draft 2020-12). The engine samples only tokens that the constraint allows, and the
model can stop only where the constraint is satisfied. Output that ends with \`stop\`, and not at a
stop text, is valid; output that ends with \`length\` was cut off and may be invalid.

Constraints fail closed: a grammar with a syntax error, or a keyword in a use that output cannot be kept
to, gets the error \`invalid_constraint\` (400) before any tokens are computed.
The message gives the keyword's JSON pointer, or the line and column in the grammar.

The work on a constraint is limited, so that one request cannot delay the others: the size of a grammar
with its repetitions expanded, the steps to compile a schema, the number of ways to parse a text, and
the comparisons for the next token. A request beyond a limit gets \`invalid_constraint\`, with the limit
in the message. If a grammar becomes too ambiguous during generation, only its own request ends, with
the same error.

The output may be narrower than the schema, never wider but for \`uniqueItems\` of free elements: properties come in the schema's order,
whitespace is at most one space or one line break with indentation, numbers have up to 15 digits.
What a schema does not say, output cannot keep to: pydantic writes \`PastDate\` and \`FutureDate\`, times
with and without a zone, and \`FileUrl\`, \`WebsocketUrl\` or \`RedisDsn\` with the formats of dates and URIs, keys
of \`dict[int, …]\` as any, and zod nothing of what a \`pipe\` or \`refine\` checks. Dates are written from
1000 to 2099, times with an offset, URIs with \`https\` or \`http\`, \`multi-host-uri\` with \`postgresql\`.
With \`ignoreEos\`, the output ends where the constraint allows no further token.

| keyword | |
|---|---|
${rows.join('\n')}

What is no keyword of JSON schema's is an annotation and is ignored, as the standard says: \`title\`,
\`default\`, OpenAPI's \`example\` … Other dialects are read as they are meant: OpenAPI 3.0's
\`nullable\`, limits that are true or false, lists of \`items\`; the property that a \`discriminator\` names is
always written.

Schemas as zod 4, pydantic and OpenAPI tools write them say nothing of further properties and mean that
there are none: such objects have the properties that are named. To have any others, say
\`additionalProperties: true\`. Where zod closes both sides of an intersection, output has the properties
of both.
`
}
