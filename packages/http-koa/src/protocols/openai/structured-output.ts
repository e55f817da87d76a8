import type { OutputConstraint } from '@cllm/core'
import { z } from 'zod'
import { parseNested } from '../../body/parse-nested.js'
import { list, object } from '../../fields/fields.js'
import { asSchema, expectedSchema, type FieldConstraint } from '../../request/constraint.js'
import { expectedField, unsupported } from '../../request/refusals.js'

const text = z.string('a string')
const choices = list(text.min(1, 'a text'), 'an array of texts', {
  least: [1, 'at least one text'],
  most: [1000, 'at most 1000 texts'],
})
const schemaField = z
  .custom<unknown>((value) => value !== undefined, 'a JSON schema')
  .meta({ anyOf: [{ type: 'object' }, { type: 'string' }, { type: 'boolean' }] })

/** vLLM's fields for constrained output, the older ones and `structured_outputs`. */
export const guidedFields = {
  guided_json: schemaField.optional(),
  guided_regex: text.optional(),
  guided_choice: choices.optional(),
  guided_grammar: text.optional(),
  structured_outputs: z
    .looseObject(
      {
        json: schemaField.optional(),
        regex: text.optional(),
        choice: choices.optional(),
        grammar: text.optional(),
        json_object: z.boolean('true or false').optional(),
        structural_tag: z.unknown().optional(),
      },
      'an object',
    )
    .optional(),
  structural_tag: object.optional(),
}

/** These fields of a body. */
export type GuidedFields = {
  readonly [Name in keyof typeof guidedFields]?: z.output<(typeof guidedFields)[Name]>
}

/**
 * The constraints that the fields ask for.
 *
 * @throws `invalid_request`, or `unsupported` for structural tags
 */
export function guidedConstraints(fields: GuidedFields): readonly (FieldConstraint | undefined)[] {
  const { structured_outputs: outputs = {} } = fields
  if (outputs.structural_tag !== undefined || fields.structural_tag !== undefined) {
    throw unsupported('structural_tag', 'use tools with strict, or a grammar')
  }
  const constraints = (at: string, given: typeof outputs) => [
    given.json === undefined ? undefined : ofJson(`${at}json`, given.json),
    given.regex && { field: `${at}regex`, constraint: ofRegex(given.regex) },
    given.choice && { field: `${at}choice`, constraint: ofChoice(given.choice) },
    given.grammar && {
      field: `${at}grammar`,
      constraint: { type: 'gbnf', grammar: given.grammar } as const,
    },
    given.json_object === true
      ? { field: `${at}json_object`, constraint: { type: 'json' } as const }
      : undefined,
  ]
  const all = [
    ...constraints('structured_outputs.', outputs),
    ...constraints('guided_', {
      json: fields.guided_json,
      regex: fields.guided_regex,
      choice: fields.guided_choice,
      grammar: fields.guided_grammar,
    }),
  ]
  return all.filter((one): one is FieldConstraint => typeof one === 'object')
}

/** vLLM takes a schema as text, too. */
function ofJson(field: string, given: unknown): FieldConstraint {
  const schema = asSchema(
    typeof given === 'string' ? parseNested(given, field, 'a JSON schema') : given,
  )
  if (schema === undefined) throw expectedSchema(field)
  return { field, constraint: { type: 'json-schema', schema } }
}

const ofRegex = (pattern: string): OutputConstraint => ({ type: 'regex', pattern })

const ofChoice = (texts: readonly string[]): OutputConstraint => ({
  type: 'gbnf',
  grammar: `root ::= ${texts.map(literal).join(' | ')}`,
})

const escapes: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }

const literal = (text: string): string =>
  `"${text.replaceAll(/["\\]/g, String.raw`\$&`).replaceAll(/[\n\r\t]/g, (sign) => escapes[sign]!)}"`

/**
 * What `response_format` asks for. llama-server's clients put the schema beside `json_object`, those of
 * Hugging Face send it as the `value` of `json`, and a pattern as that of `regex`.
 */
export function formatConstraint(
  format: Readonly<Record<string, unknown>> | undefined,
): FieldConstraint | undefined {
  const field = 'response_format'
  switch (format?.['type']) {
    case undefined:
      if (format === undefined) return undefined
      break
    case 'text':
      return undefined
    case 'json_object':
      if (format?.['schema'] === undefined) return { field, constraint: { type: 'json' } }
      return ofSchema(format['schema'], `${field}.schema`)
    case 'json':
      return ofSchema(format?.['value'], `${field}.value`)
    case 'regex': {
      const pattern = format?.['value']
      if (typeof pattern !== 'string') throw expectedField(`${field}.value`, 'a regular expression')
      return { field, constraint: { type: 'regex', pattern } }
    }
    case 'json_schema': {
      const inner = asSchema(format?.['json_schema'])
      const schema = typeof inner === 'object' ? inner['schema'] : undefined
      return ofSchema(schema, `${field}.json_schema.schema`)
    }
    default:
  }
  throw expectedField(`${field}.type`, 'text, json_object or json_schema')
}

/** A schema at llama-server's top-level `json_schema`. */
export const schemaConstraint = (
  schema: Readonly<Record<string, unknown>> | undefined,
): FieldConstraint | undefined =>
  schema && { field: 'json_schema', constraint: { type: 'json-schema', schema } }

function ofSchema(value: unknown, field: string): FieldConstraint {
  const schema = asSchema(value)
  if (schema === undefined) throw expectedSchema(field)
  return { field: 'response_format', constraint: { type: 'json-schema', schema } }
}
