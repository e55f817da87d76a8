import type { OutputConstraint } from '@cllm/core'
import { z } from 'zod'
import { parseNested } from '../../body/read-body.js'
import { isObject, list, object, type JsonObject } from '../../fields/fields.js'
import type { FieldConstraint } from '../../request/build-request.js'
import { grammarConstraint, schemaConstraint } from '../../request/build-request.js'
import { expectedField, unsupported } from '../../request/refusals.js'

const text = z.string('a string')
const choices = list(text.min(1, 'a text'), 'an array of texts', {
  least: [1, 'at least one text'],
  most: [1000, 'at most 1000 texts'],
})
const schemaField = z
  .custom<unknown>((value) => value !== undefined, 'a JSON schema')
  .meta({ anyOf: [{ type: 'object' }, { type: 'string' }, { type: 'boolean' }] })

/**
 * The fields that may ask for a form of the answer: OpenAI's, llama-server's, and vLLM's, the older ones and
 * `structured_outputs`.
 */
export const askingFields = {
  grammar: text.optional(),
  json_schema: object.optional(),
  response_format: object.optional(),
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
type AskingFields = {
  readonly [Name in keyof typeof askingFields]?: z.output<(typeof askingFields)[Name]>
}

/**
 * The constraints that the fields ask for: OpenAI's, llama-server's and vLLM's.
 *
 * @throws `invalid_request`, or `unsupported` for structural tags
 */
export function askedConstraints(fields: AskingFields): readonly FieldConstraint[] {
  const { response_format: format, json_schema: schema, structured_outputs: outputs } = fields
  if (outputs?.structural_tag !== undefined || fields.structural_tag !== undefined) {
    throw unsupported('structural_tag', 'use tools with strict, or a grammar')
  }
  const { guided_json: json, guided_regex: regex, guided_choice: choice } = fields
  const asked = [
    format && formatConstraint(format),
    fields.grammar === undefined ? undefined : grammarConstraint(fields.grammar),
    schema && schemaConstraint('json_schema', schema),
    ...(outputs === undefined ? [] : guidedConstraints('structured_outputs.', outputs)),
    ...guidedConstraints('guided_', { json, regex, choice, grammar: fields.guided_grammar }),
  ]
  return asked.filter((one) => one !== undefined)
}

type GuidedOutputs = NonNullable<AskingFields['structured_outputs']>

function guidedConstraints(
  at: string,
  { json, regex = '', choice, grammar = '', json_object: isJson }: Partial<GuidedOutputs>,
): (FieldConstraint | undefined)[] {
  const asks = (name: string, constraint: OutputConstraint) => ({ field: at + name, constraint })
  return [
    json === undefined ? undefined : ofJson(`${at}json`, json),
    regex === '' ? undefined : asks('regex', { type: 'regex', pattern: regex }),
    choice && asks('choice', ofChoice(choice)),
    grammar === '' ? undefined : asks('grammar', { type: 'gbnf', grammar }),
    isJson === true ? asks('json_object', { type: 'json' }) : undefined,
  ]
}

/** vLLM takes a schema as text, too. */
function ofJson(field: string, given: unknown): FieldConstraint {
  const schema = typeof given === 'string' ? parseNested(given, field, 'a JSON schema') : given
  return schemaConstraint(field, schema)
}

const ofChoice = (texts: readonly string[]): OutputConstraint => ({
  type: 'gbnf',
  grammar: `root ::= ${texts.map(literal).join(' | ')}`,
})

/** Its signs of control are escaped, too: a grammar has no NUL, and ends a line where a text would. */
const literal = (text: string): string =>
  `"${text.replaceAll(/["\\\p{Cc}]/gu, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, '0')}`)}"`

/**
 * What `response_format` asks for. llama-server's clients put the schema beside `json_object`, those of
 * Hugging Face send it as the `value` of `json`, and a pattern as that of `regex`.
 */
export function formatConstraint(format: JsonObject): FieldConstraint | undefined {
  const field = 'response_format'
  switch (format['type']) {
    case 'text':
      return undefined
    case 'json_object':
      if (format['schema'] === undefined) return { field, constraint: { type: 'json' } }
      return schemaConstraint(field, format['schema'], `${field}.schema`)
    case 'json':
      return schemaConstraint(field, format['value'], `${field}.value`)
    case 'regex': {
      const pattern = format['value']
      if (typeof pattern !== 'string') throw expectedField(`${field}.value`, 'a regular expression')
      return { field, constraint: { type: 'regex', pattern } }
    }
    case 'json_schema': {
      const inner = format['json_schema']
      const schema = isObject(inner) ? inner['schema'] : undefined
      return schemaConstraint(field, schema, `${field}.json_schema.schema`)
    }
    default:
  }
  throw expectedField(`${field}.type`, 'text, json_object or json_schema')
}
