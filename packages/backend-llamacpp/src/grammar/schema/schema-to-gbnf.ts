import type { JsonSchema, OutputConstraint } from '@cllm/core'
import { areDisjoint } from './disjoint.js'
import { GbnfWriter, literal, oneOf } from '../gbnf/gbnf-writer.js'
import { jsonRule } from '../rules/json-rules.js'
import { refusedSchema } from '../refuse.js'
import { SchemaCompiler } from './schema-compiler.js'
import { SchemaDocument } from './schema-document.js'

/**
 * A grammar whose every text is JSON that is valid by the schema. It may allow less than the schema
 * (members come in the schema's order, whitespace is bounded), never more: what cannot be kept to is
 * refused.
 * @throws CllmError `invalid_constraint` naming the keyword and its JSON pointer
 */
export function schemaToGbnf(schema: JsonSchema): string {
  const writer = new GbnfWriter()
  writer.define('root', compile(schema, writer))
  return writer.toString()
}

/**
 * The grammar of the text after a trigger, preceded by `skipped` arbitrary characters.
 * @throws CllmError `invalid_constraint` naming the keyword and its JSON pointer
 */
export function triggeredGbnf(
  { schema, closing = '', next }: Extract<OutputConstraint, { type: 'triggered-json' }>,
  skipped: number,
): string {
  const writer = new GbnfWriter()
  const gap = writer.rule(String.raw`[ \t\n]{0,3}`)
  const value = [gap, compile(schema, writer), ...(closing === '' ? [] : [gap, literal(closing)])]
  const one = writer.rule(value.join(' '))
  const more = next === undefined ? '' : ` (${gap} ${literal(next)} ${one})*`
  const before = skipped === 0 ? '' : `${oneOf([[0, 0x10ffff]])}{${skipped}} `
  writer.define('root', `${before}${one}${more}`)
  return writer.toString()
}

function compile(schema: JsonSchema, writer: GbnfWriter): string {
  const document = new SchemaDocument(schema, areDisjoint)
  const rule = new SchemaCompiler(document, writer).compile([document.root])
  if (rule === undefined) throw refusedSchema('#', 'nothing is valid by it')
  return rule
}

/** A grammar of JSON objects. */
export function jsonGbnf(): string {
  const writer = new GbnfWriter()
  writer.define('root', jsonRule(writer, 'object'))
  return writer.toString()
}
