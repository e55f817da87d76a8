import type { EitherJson, JsonSchema, JsonSurroundings, OutputConstraint } from '@cllm/core'
import { type GbnfWriter, grammarText, literal, oneOf } from '../gbnf/gbnf-writer.js'
import { regexRule } from '../pattern/regex-to-gbnf.js'
import { refusedSchema } from '../refuse.js'
import { jsonRule } from '../rules/json-rules.js'
import { SchemaBudget } from './schema-budget.js'
import { SchemaCompiler } from './schema-compiler.js'
import { SchemaDocument } from './schema-document.js'
import { alternativesOf } from './ways/schema-alternatives.js'

/**
 * A grammar whose every text is JSON that is valid by the schema. It may allow less than the schema
 * (members come in the schema's order, whitespace is bounded), never more, but that free elements of
 * `uniqueItems` may come again: what cannot be kept to is refused.
 * @throws CllmError `invalid_constraint` naming the keyword and its JSON pointer
 */
export function schemaToGbnf(schema: JsonSchema, around: Omit<EitherJson, 'schema'> = {}): string {
  return grammarText((writer) => either(writer, { ...around, schema }))
}

/** The kinds share the budget, as there may be one for each of many tools. */
function either(writer: GbnfWriter, kinds: EitherJson): string {
  const budget = new SchemaBudget()
  const bodies: string[] = []
  for (let one: EitherJson | undefined = kinds; one !== undefined; one = one.or) {
    const prefix = bodies.length === 0 ? 's' : `o${bodies.length}x`
    const document = new SchemaDocument(one.schema, alternativesOf, budget)
    const value = new SchemaCompiler(document, writer, prefix).compile([document.root])
    if (value === undefined) throw refusedSchema('#', 'nothing is valid by it')
    bodies.push(surrounded(writer, value, one).join(' '))
  }
  return bodies.join(' | ')
}

const gapRule = (writer: GbnfWriter): string => writer.rule(String.raw`[ \t\n]{0,3}`)

/** The JSON between what stands before and behind it, and further JSON of the same kind. */
function surrounded(
  writer: GbnfWriter,
  value: string,
  { before = '', closing = '', next }: JsonSurroundings,
): readonly string[] {
  const gap = () => gapRule(writer)
  const one = [value, ...(closing === '' ? [] : [gap(), literal(closing)])]
  const opening = before === '' ? [] : [writer.rule(regexRule(writer, before)), gap()]
  if (next === undefined) return [...opening, ...one]
  const closed = writer.rule(one.join(' '))
  return [...opening, closed, `(${gap()} ${literal(next)} ${gap()} ${closed})*`]
}

/**
 * The grammar of the text after a trigger, preceded by `skipped` arbitrary characters.
 * @throws CllmError `invalid_constraint` naming the keyword and its JSON pointer
 */
export function triggeredGbnf(
  constraint: Extract<OutputConstraint, { type: 'triggered-json' }>,
  skipped: number,
): string {
  return grammarText((writer) => {
    const value = `${gapRule(writer)} ${writer.rule(either(writer, constraint))}`
    return skipped === 0 ? value : `${oneOf([[0, 0x10ffff]])}{${skipped}} ${value}`
  })
}

/** A grammar of JSON objects. */
export function jsonGbnf(): string {
  return grammarText((writer) => jsonRule(writer, 'object'))
}
