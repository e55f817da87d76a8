import type { OutputConstraint } from '@cllm/core'
import { z } from 'zod'
import { parseNested } from '../../body/parse-nested.js'
import { object } from '../../fields/fields.js'
import { list } from '../../fields/list.js'
import { asSchema, expectedSchema, type FieldConstraint } from '../../request/constraint.js'
import { unsupported } from '../../request/unsupported.js'

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
